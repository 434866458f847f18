package authorization_test

import (
	"context"
	"fmt"
	"math/rand"
	"runtime"
	"syscall"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	rbaclisters "k8s.io/client-go/listers/rbac/v1"
	"k8s.io/client-go/tools/cache"
	upstream "k8s.io/kubernetes/plugin/pkg/auth/authorizer/rbac"

	"github.com/keelson-dev/keelson/authn"
	"github.com/keelson-dev/keelson/authz"
	"github.com/keelson-dev/keelson/authz/rbac"
)

const (
	benchNamespaces = 100
	benchUsers      = 3000
	benchGroups     = 500
)

// largePolicy has 2,000 roles and 10,000 bindings: half of the roles and a fifth of the bindings are the cluster's.
func largePolicy() rbac.Policy {
	r := rand.New(rand.NewSource(1))
	var p rbac.Policy
	rules := func() (all []rbacv1.PolicyRule) {
		for range 1 + r.Intn(5) {
			all = append(all, rbacv1.PolicyRule{
				APIGroups: []string{fmt.Sprint("group", r.Intn(5))}, Resources: []string{fmt.Sprint("resource", r.Intn(20)), fmt.Sprint("resource", r.Intn(20))},
				Verbs: []string{"get", "list", "watch"},
			})
		}
		return all
	}
	for i := range 1000 {
		p.ClusterRoles = append(p.ClusterRoles, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("role-%04d", i)}, Rules: rules()})
		p.Roles = append(p.Roles, &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: fmt.Sprint("ns-", i%benchNamespaces), Name: fmt.Sprintf("role-%04d", i)}, Rules: rules()})
	}
	subjects := func() []rbacv1.Subject {
		if r.Intn(3) == 0 {
			return []rbacv1.Subject{{Kind: "Group", APIGroup: rbacv1.GroupName, Name: fmt.Sprint("group-", r.Intn(benchGroups))}}
		}
		return []rbacv1.Subject{{Kind: "User", APIGroup: rbacv1.GroupName, Name: fmt.Sprint("user-", r.Intn(benchUsers))}}
	}
	for i := range 10_000 {
		meta := metav1.ObjectMeta{Name: fmt.Sprintf("binding-%05d", i)}
		ref := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: fmt.Sprintf("role-%04d", r.Intn(1000))}
		if i%5 == 0 {
			p.ClusterRoleBindings = append(p.ClusterRoleBindings, &rbacv1.ClusterRoleBinding{ObjectMeta: meta, RoleRef: ref, Subjects: subjects()})
			continue
		}
		n := r.Intn(benchNamespaces)
		meta.Namespace = fmt.Sprint("ns-", n)
		if r.Intn(2) == 0 {
			ref.Kind, ref.Name = "Role", fmt.Sprintf("role-%04d", n+benchNamespaces*r.Intn(10))
		}
		p.RoleBindings = append(p.RoleBindings, &rbacv1.RoleBinding{ObjectMeta: meta, RoleRef: ref, Subjects: subjects()})
	}
	return p
}

// upstreamOver is upstream's authorizer over its informers' stores.
func upstreamOver(p rbac.Policy) *upstream.RBACAuthorizer {
	indexers := [4]cache.Indexer{}
	for i := range indexers {
		indexers[i] = cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
	}
	fill(indexers[0], p.Roles)
	fill(indexers[1], p.RoleBindings)
	fill(indexers[2], p.ClusterRoles)
	fill(indexers[3], p.ClusterRoleBindings)
	return upstream.New(
		&upstream.RoleGetter{Lister: rbaclisters.NewRoleLister(indexers[0])}, &upstream.RoleBindingLister{Lister: rbaclisters.NewRoleBindingLister(indexers[1])},
		&upstream.ClusterRoleGetter{Lister: rbaclisters.NewClusterRoleLister(indexers[2])}, &upstream.ClusterRoleBindingLister{Lister: rbaclisters.NewClusterRoleBindingLister(indexers[3])},
	)
}

func fill[T any](into cache.Indexer, objects []T) {
	for _, obj := range objects {
		if err := into.Add(obj); err != nil {
			panic(err)
		}
	}
}

// benchRequests are requests that are allowed, or not.
func benchRequests(z authz.Authorizer, allowed bool) (all []authz.Attributes) {
	r := rand.New(rand.NewSource(2))
	for len(all) < 1000 {
		a := authz.Attributes{
			User: &authn.Identity{
				Name: fmt.Sprint("user-", r.Intn(benchUsers)), Groups: []string{fmt.Sprint("group-", r.Intn(benchGroups)), fmt.Sprint("group-", r.Intn(benchGroups)), "system:authenticated"},
			},
			Verb: "get", Group: fmt.Sprint("group", r.Intn(5)), Resource: fmt.Sprint("resource", r.Intn(20)), Namespace: fmt.Sprint("ns-", r.Intn(benchNamespaces)), Name: "x", ResourceRequest: true,
		}
		if d, err := z.Authorize(context.Background(), a); err == nil && (d.Verdict == authz.Allow) == allowed {
			all = append(all, a)
		}
	}
	return all
}

// BenchmarkRBAC decides with 10,000 bindings and 2,000 roles.
func BenchmarkRBAC(b *testing.B) {
	p := largePolicy()
	ours, theirs := rbac.New(p.Sources()), upstreamOver(p)
	for _, allowed := range []bool{true, false} {
		requests := benchRequests(ours, allowed)
		var converted []authorizer.Attributes
		for _, a := range requests {
			converted = append(converted, authorizer.AttributesRecord{
				User: &user.DefaultInfo{Name: a.User.Name, Groups: a.User.Groups}, Verb: a.Verb, APIGroup: a.Group, Resource: a.Resource, Namespace: a.Namespace, Name: a.Name, ResourceRequest: true,
			})
		}
		b.Run(fmt.Sprintf("allowed=%t/keelson", allowed), func(b *testing.B) {
			defer reportCPU(b)()
			for i := 0; b.Loop(); i++ {
				if d, err := ours.Authorize(b.Context(), requests[i%len(requests)]); err != nil || (d.Verdict == authz.Allow) != allowed {
					b.Fatal(d, err)
				}
			}
		})
		b.Run(fmt.Sprintf("allowed=%t/upstream", allowed), func(b *testing.B) {
			defer reportCPU(b)()
			for i := 0; b.Loop(); i++ {
				if d, _, err := theirs.Authorize(b.Context(), converted[i%len(converted)]); err != nil || (d == authorizer.DecisionAllow) != allowed {
					b.Fatal(d, err)
				}
			}
		})
	}
}

// reportCPU has a benchmark report its allocations, and what it took of the processor, which is what counts on a busy machine.
func reportCPU(b *testing.B) func() {
	b.ReportAllocs()
	used := func() time.Duration {
		var u syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
			b.Fatal(err)
		}
		return time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	before := used()
	return func() { b.ReportMetric(float64(used()-before)/float64(b.N), "cpu-ns/op") }
}

// BenchmarkRBACMemory is what the authorizers keep besides the objects, which both share: after 2,000 decisions, by which time
// ours has compiled its rules.
func BenchmarkRBACMemory(b *testing.B) {
	p := largePolicy()
	requests := append(benchRequests(rbac.New(p.Sources()), true), benchRequests(rbac.New(p.Sources()), false)...)
	heap := func() int64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	var objects int64
	{
		before := heap()
		copied := largePolicy()
		objects = heap() - before
		runtime.KeepAlive(copied)
	}
	b.Run("keelson", func(b *testing.B) {
		var kept int64
		for b.Loop() {
			before := heap()
			z := rbac.New(p.Sources())
			for _, a := range requests {
				if _, err := z.Authorize(b.Context(), a); err != nil {
					b.Fatal(err)
				}
			}
			kept = heap() - before
			runtime.KeepAlive(z)
		}
		b.ReportMetric(float64(kept), "kept-B")
		b.ReportMetric(float64(objects), "objects-B")
	})
	b.Run("upstream", func(b *testing.B) {
		var kept int64
		for b.Loop() {
			before := heap()
			z := upstreamOver(p)
			kept = heap() - before
			runtime.KeepAlive(z)
		}
		b.ReportMetric(float64(kept), "kept-B")
		b.ReportMetric(float64(objects), "objects-B")
	})
}
