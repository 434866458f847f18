package bootstrap_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/keelson-dev/keelson/authz/rbac"
	"github.com/keelson-dev/keelson/authz/rbac/bootstrap"
	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/client/faults"
	"github.com/keelson-dev/keelson/controllers/controllerstest"
	"github.com/keelson-dev/keelson/informer"
)

func rule(verbs ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{Verbs: verbs, APIGroups: []string{""}, Resources: []string{"pods"}}
}

func gathering(labels ...string) *rbacv1.AggregationRule {
	a := &rbacv1.AggregationRule{}
	for _, label := range labels {
		a.ClusterRoleSelectors = append(a.ClusterRoleSelectors, metav1.LabelSelector{MatchLabels: map[string]string{label: "true"}})
	}
	return a
}

func meta(set map[string]string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: "x", Labels: set, Annotations: set}
}

func TestReconcileClusterRole(t *testing.T) {
	type role = rbacv1.ClusterRole
	ours := map[string]string{"a": "1"}
	protected := metav1.ObjectMeta{Name: "x", Annotations: map[string]string{rbacv1.AutoUpdateAnnotationKey: "false"}}
	for name, c := range map[string]struct {
		have, want, next *role
		change           bootstrap.Change
	}{
		"the same":              {&role{Rules: []rbacv1.PolicyRule{rule("get")}}, &role{Rules: []rbacv1.PolicyRule{rule("get")}}, &role{Rules: []rbacv1.PolicyRule{rule("get")}}, bootstrap.Nothing},
		"more than wanted":      {&role{Rules: []rbacv1.PolicyRule{rule("*")}}, &role{Rules: []rbacv1.PolicyRule{rule("get")}}, &role{Rules: []rbacv1.PolicyRule{rule("*")}}, bootstrap.Nothing},
		"a verb missing":        {&role{Rules: []rbacv1.PolicyRule{rule("get", "x")}}, &role{Rules: []rbacv1.PolicyRule{rule("get", "list")}}, &role{Rules: []rbacv1.PolicyRule{rule("get", "x"), rule("list")}}, bootstrap.Update},
		"labels":                {&role{ObjectMeta: meta(map[string]string{"a": "2", "b": "3"})}, &role{ObjectMeta: meta(map[string]string{"a": "1", "c": "4"})}, &role{ObjectMeta: meta(map[string]string{"a": "2", "b": "3", "c": "4"})}, bootstrap.Update},
		"no labels":             {&role{}, &role{ObjectMeta: metav1.ObjectMeta{Labels: ours}}, &role{ObjectMeta: metav1.ObjectMeta{Labels: ours}}, bootstrap.Update},
		"protected":             {&role{ObjectMeta: protected}, &role{Rules: []rbacv1.PolicyRule{rule("get")}}, &role{ObjectMeta: protected}, bootstrap.Nothing},
		"gathers too much":      {&role{AggregationRule: gathering("a")}, &role{}, &role{}, bootstrap.Update},
		"selector missing":      {&role{AggregationRule: gathering("a")}, &role{AggregationRule: gathering("b", "a")}, &role{AggregationRule: gathering("a", "b")}, bootstrap.Update},
		"selectors there":       {&role{AggregationRule: gathering("a", "b")}, &role{AggregationRule: gathering("b")}, &role{AggregationRule: gathering("a", "b")}, bootstrap.Nothing},
		"did not gather":        {&role{Rules: []rbacv1.PolicyRule{rule("get")}}, &role{AggregationRule: gathering("a")}, &role{Rules: []rbacv1.PolicyRule{rule("get")}, AggregationRule: gathering("a")}, bootstrap.Update},
		"gathered rules differ": {&role{AggregationRule: gathering("a")}, &role{AggregationRule: gathering("a"), Rules: []rbacv1.PolicyRule{rule("get")}}, &role{AggregationRule: gathering("a")}, bootstrap.Nothing},
	} {
		t.Run(name, func(t *testing.T) {
			have, want := c.have.DeepCopy(), c.want.DeepCopy()
			next, change := bootstrap.ReconcileClusterRole(c.have, c.want)
			if change != c.change || !reflect.DeepEqual(next, c.next) {
				t.Errorf("got %+v, %v; want %+v, %v", next, change, c.next, c.change)
			}
			if !reflect.DeepEqual(have, c.have) || !reflect.DeepEqual(want, c.want) {
				t.Error("an argument was changed")
			}
		})
	}
}

func TestReconcileBinding(t *testing.T) {
	type binding = rbacv1.RoleBinding
	ann, bob := rbacv1.Subject{Kind: "User", Name: "ann"}, rbacv1.Subject{Kind: "User", Name: "bob"}
	a, b := rbacv1.RoleRef{Name: "a"}, rbacv1.RoleRef{Name: "b"}
	protected := metav1.ObjectMeta{Annotations: map[string]string{rbacv1.AutoUpdateAnnotationKey: "false"}}
	for name, c := range map[string]struct {
		have, want, next *binding
		change           bootstrap.Change
	}{
		"the same":         {&binding{RoleRef: a, Subjects: []rbacv1.Subject{ann}}, &binding{RoleRef: a, Subjects: []rbacv1.Subject{ann}}, &binding{RoleRef: a, Subjects: []rbacv1.Subject{ann}}, bootstrap.Nothing},
		"more than wanted": {&binding{Subjects: []rbacv1.Subject{ann}}, &binding{}, &binding{Subjects: []rbacv1.Subject{ann}}, bootstrap.Nothing},
		"subject missing":  {&binding{Subjects: []rbacv1.Subject{ann}}, &binding{Subjects: []rbacv1.Subject{bob, bob}}, &binding{Subjects: []rbacv1.Subject{ann, bob}}, bootstrap.Update},
		"another role":     {&binding{RoleRef: a, Subjects: []rbacv1.Subject{ann}}, &binding{RoleRef: b}, &binding{RoleRef: b}, bootstrap.Recreate},
		"protected":        {&binding{ObjectMeta: protected, RoleRef: a}, &binding{RoleRef: b}, &binding{ObjectMeta: protected, RoleRef: a}, bootstrap.Nothing},
	} {
		t.Run(name, func(t *testing.T) {
			next, change := bootstrap.ReconcileRoleBinding(c.have, c.want)
			if change != c.change || !reflect.DeepEqual(next, c.next) {
				t.Errorf("got %+v, %v; want %+v, %v", next, change, c.next, c.change)
			}
			cluster := func(b *binding) *rbacv1.ClusterRoleBinding {
				return &rbacv1.ClusterRoleBinding{ObjectMeta: b.ObjectMeta, RoleRef: b.RoleRef, Subjects: b.Subjects}
			}
			nextCluster, change := bootstrap.ReconcileClusterRoleBinding(cluster(c.have), cluster(c.want))
			if change != c.change || !reflect.DeepEqual(nextCluster, cluster(c.next)) {
				t.Errorf("cluster-wide: got %+v, %v; want %+v, %v", nextCluster, change, c.next, c.change)
			}
		})
	}
}

// TestReconcileMore: what differs in one place only is put right there, of every kind; what is protected stays whatever differs.
func TestReconcileMore(t *testing.T) {
	labelled, annotated := metav1.ObjectMeta{Labels: map[string]string{"a": "1"}}, metav1.ObjectMeta{Annotations: map[string]string{"a": "1"}}
	protected := metav1.ObjectMeta{Annotations: map[string]string{rbacv1.AutoUpdateAnnotationKey: "false"}}
	rules, subjects := []rbacv1.PolicyRule{rule("get")}, []rbacv1.Subject{{Kind: "User", Name: "ann"}}
	for name, c := range map[string]struct {
		have, want, next metav1.ObjectMeta
		holds, wants     bool // the rules or subjects
		change           bootstrap.Change
	}{
		"nothing":             {change: bootstrap.Nothing},
		"all there":           {holds: true, wants: true, change: bootstrap.Nothing},
		"more there":          {holds: true, change: bootstrap.Nothing},
		"missing":             {wants: true, change: bootstrap.Update},
		"labels":              {want: labelled, next: labelled, holds: true, wants: true, change: bootstrap.Update},
		"annotations":         {want: annotated, next: annotated, holds: true, wants: true, change: bootstrap.Update},
		"labels of its own":   {have: labelled, next: labelled, holds: true, wants: true, change: bootstrap.Nothing},
		"missing, and labels": {want: labelled, next: labelled, wants: true, change: bootstrap.Update},
		"protected":           {have: protected, want: labelled, next: protected, wants: true, change: bootstrap.Nothing},
	} {
		some := func(is bool) ([]rbacv1.PolicyRule, []rbacv1.Subject) {
			if is {
				return rules, subjects
			}
			return nil, nil
		}
		haveRules, haveSubjects := some(c.holds)
		wantRules, wantSubjects := some(c.wants)
		nextRules, nextSubjects := some(c.holds || c.wants && c.change != bootstrap.Nothing)
		role, change := bootstrap.ReconcileRole(&rbacv1.Role{ObjectMeta: c.have, Rules: haveRules}, &rbacv1.Role{ObjectMeta: c.want, Rules: wantRules})
		if want := (&rbacv1.Role{ObjectMeta: c.next, Rules: nextRules}); change != c.change || !reflect.DeepEqual(role, want) {
			t.Errorf("%s: role %+v, %v; want %+v, %v", name, role, change, want, c.change)
		}
		clusterRole, change := bootstrap.ReconcileClusterRole(&rbacv1.ClusterRole{ObjectMeta: c.have, Rules: haveRules}, &rbacv1.ClusterRole{ObjectMeta: c.want, Rules: wantRules})
		if want := (&rbacv1.ClusterRole{ObjectMeta: c.next, Rules: nextRules}); change != c.change || !reflect.DeepEqual(clusterRole, want) {
			t.Errorf("%s: cluster role %+v, %v; want %+v, %v", name, clusterRole, change, want, c.change)
		}
		binding, change := bootstrap.ReconcileRoleBinding(&rbacv1.RoleBinding{ObjectMeta: c.have, Subjects: haveSubjects}, &rbacv1.RoleBinding{ObjectMeta: c.want, Subjects: wantSubjects})
		if want := (&rbacv1.RoleBinding{ObjectMeta: c.next, Subjects: nextSubjects}); change != c.change || !reflect.DeepEqual(binding, want) {
			t.Errorf("%s: binding %+v, %v; want %+v, %v", name, binding, change, want, c.change)
		}
		clusterBinding, change := bootstrap.ReconcileClusterRoleBinding(&rbacv1.ClusterRoleBinding{ObjectMeta: c.have, Subjects: haveSubjects}, &rbacv1.ClusterRoleBinding{ObjectMeta: c.want, Subjects: wantSubjects})
		if want := (&rbacv1.ClusterRoleBinding{ObjectMeta: c.next, Subjects: nextSubjects}); change != c.change || !reflect.DeepEqual(clusterBinding, want) {
			t.Errorf("%s: cluster binding %+v, %v; want %+v, %v", name, clusterBinding, change, want, c.change)
		}
	}
}

// TestEnsureAmongOthers: what another writer does between two requests is met by starting again; a failure of any request is told.
func TestEnsureAmongOthers(t *testing.T) {
	gr := rbacv1.Resource("clusterrolebindings")
	binding := func(role string) *rbacv1.ClusterRoleBinding {
		return &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "x"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role}}
	}
	labelled := binding("a")
	labelled.Labels = map[string]string{"a": "1"}
	down := errors.New("disk on fire")
	for name, c := range map[string]struct {
		have, want *rbacv1.ClusterRoleBinding // have nothing: there is none
		fails      map[string][]error         // the first requests of a verb
		did        string
		err        error
	}{
		"nothing to do":         {have: binding("a"), want: binding("a"), did: "get x"},
		"missing":               {want: binding("a"), did: "get x, create "},
		"missing no longer":     {want: binding("a"), fails: map[string][]error{faults.Create: {apierrors.NewAlreadyExists(gr, "x")}}, did: "get x, create , get x, create "},
		"cannot be made":        {want: binding("a"), fails: map[string][]error{faults.Create: {down}}, did: "get x, create ", err: down},
		"changed":               {have: binding("a"), want: labelled, did: "get x, update x"},
		"gone before an update": {have: binding("a"), want: labelled, fails: map[string][]error{faults.Update: {apierrors.NewNotFound(gr, "x")}}, did: "get x, update x, get x, update x"},
		"of another role":       {have: binding("b"), want: binding("a"), did: "get x, delete x, create "},
		"gone before a delete":  {have: binding("b"), want: binding("a"), fails: map[string][]error{faults.Delete: {apierrors.NewNotFound(gr, "x")}}, did: "get x, delete x, create , get x, delete x, create "},
		"cannot be deleted":     {have: binding("b"), want: binding("a"), fails: map[string][]error{faults.Delete: {down}}, did: "get x, delete x", err: down},
		"cannot be made again":  {have: binding("b"), want: binding("a"), fails: map[string][]error{faults.Create: {down}}, did: "get x, delete x, create ", err: down},
	} {
		var did []string
		watching := false
		api := controllerstest.Start(t, controllerstest.Options{Before: func(a faults.Request) error {
			if !watching {
				return nil
			}
			did = append(did, strings.ToLower(a.Verb)+" "+a.Target.Name)
			if errs := c.fails[a.Verb]; len(errs) > 0 {
				c.fails[a.Verb] = errs[1:]
				return errs[0]
			}
			return nil
		}})
		if c.have != nil {
			if err := bootstrap.Ensure(t.Context(), api, rbac.Policy{ClusterRoleBindings: []*rbacv1.ClusterRoleBinding{c.have}}); err != nil {
				t.Fatal(err)
			}
		}
		watching = true
		err := bootstrap.Ensure(t.Context(), api, rbac.Policy{ClusterRoleBindings: []*rbacv1.ClusterRoleBinding{c.want}})
		if got := strings.Join(did, ", "); got != c.did || !errors.Is(err, c.err) || c.err == nil && err != nil {
			t.Errorf("%s: did %q, want %q; %v, want %v", name, got, c.did, err, c.err)
		}
	}
}

// impostor answers with objects of another type.
type impostor struct{ bootstrap.Access }

func (impostor) Get(context.Context, client.Target) (runtime.Object, error) {
	return &rbacv1.Role{}, nil
}

func TestEnsureOfAnotherType(t *testing.T) {
	err := bootstrap.Ensure(t.Context(), impostor{}, rbac.Policy{ClusterRoles: []*rbacv1.ClusterRole{{ObjectMeta: metav1.ObjectMeta{Name: "x"}}}})
	if got := fmt.Sprint(err); got != "unable to reconcile clusterroles x: got a *v1.Role" {
		t.Error(got)
	}
}

func TestNodeRules(t *testing.T) {
	policy := bootstrap.Policy()
	at := slices.IndexFunc(policy.ClusterRoles, func(r *rbacv1.ClusterRole) bool { return r.Name == "system:node" })
	if at < 0 || !reflect.DeepEqual(bootstrap.NodeRules(), policy.ClusterRoles[at].Rules) {
		t.Error("the rules of nodes are not those of system:node")
	}
}

func stored[T informer.Object](t *testing.T, api *controllerstest.API, resource string) []T {
	t.Helper()
	items, _, err := controllerstest.Source[T](api, rbacv1.SchemeGroupVersion.WithResource(resource)).List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return items
}

func TestEnsure(t *testing.T) {
	api := controllerstest.Start(t, controllerstest.Options{})
	policy := bootstrap.Policy()
	if err := bootstrap.Ensure(t.Context(), api, policy); err != nil {
		t.Fatal(err)
	}
	now := rbac.Policy{
		ClusterRoles:        stored[*rbacv1.ClusterRole](t, api, "clusterroles"),
		ClusterRoleBindings: stored[*rbacv1.ClusterRoleBinding](t, api, "clusterrolebindings"),
		Roles:               stored[*rbacv1.Role](t, api, "roles"),
		RoleBindings:        stored[*rbacv1.RoleBinding](t, api, "rolebindings"),
	}
	if got, want := dump(now), dump(policy); got != want {
		t.Errorf("stored\n%s\nwant\n%s", got, want)
	}

	// An administrator took something away, added something, and pointed a binding elsewhere.
	at := func(resource, name string) client.Target {
		return client.Target{Resource: rbacv1.SchemeGroupVersion.WithResource(resource), Name: name}
	}
	dns, err := api.Get(t.Context(), at("clusterroles", "system:kube-dns"))
	if err != nil {
		t.Fatal(err)
	}
	changed := dns.(*rbacv1.ClusterRole).DeepCopy()
	changed.Rules = []rbacv1.PolicyRule{rule("get")}
	if _, err := api.Update(t.Context(), at("clusterroles", "system:kube-dns"), changed, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := api.Delete(t.Context(), at("clusterrolebindings", "system:kube-dns"), metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	elsewhere := &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "system:kube-dns"}, RoleRef: rbacv1.RoleRef{Kind: "ClusterRole", Name: "other"}}
	if _, err := api.Create(t.Context(), at("clusterrolebindings", ""), elsewhere, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := bootstrap.Ensure(t.Context(), api, policy); err != nil {
		t.Fatal(err)
	}
	dns, _ = api.Get(t.Context(), at("clusterroles", "system:kube-dns"))
	if rules := dns.(*rbacv1.ClusterRole).Rules; len(rules) != 5 || !reflect.DeepEqual(rules[0], rule("get")) {
		t.Errorf("the role has %v", rules)
	}
	binding, _ := api.Get(t.Context(), at("clusterrolebindings", "system:kube-dns"))
	if b := binding.(*rbacv1.ClusterRoleBinding); b.RoleRef.Name != "system:kube-dns" || len(b.Subjects) != 1 {
		t.Errorf("the binding is %v", b)
	}
}

func TestEnsureMeetsTrouble(t *testing.T) {
	var (
		conflicts int
		broken    string
	)
	api := controllerstest.Start(t, controllerstest.Options{Before: func(a faults.Request) error {
		if a.Verb == faults.Get && broken != "" && a.Target.Name == broken {
			return errors.New("disk on fire")
		}
		if a.Verb == faults.Update && conflicts > 0 {
			conflicts--
			return apierrors.NewConflict(a.Target.Resource.GroupResource(), a.Target.Name, errors.New("somebody else was here"))
		}
		return nil
	}})
	old := rbac.Policy{ClusterRoles: []*rbacv1.ClusterRole{{ObjectMeta: metav1.ObjectMeta{Name: "x"}}}}
	want := rbac.Policy{ClusterRoles: []*rbacv1.ClusterRole{
		{ObjectMeta: metav1.ObjectMeta{Name: "lost"}}, {ObjectMeta: metav1.ObjectMeta{Name: "x"}, Rules: []rbacv1.PolicyRule{rule("get")}},
	}}
	if err := bootstrap.Ensure(t.Context(), api, old); err != nil {
		t.Fatal(err)
	}
	conflicts, broken = 3, "lost"
	if err := bootstrap.Ensure(t.Context(), api, want); err == nil || err.Error() != "unable to reconcile clusterroles lost: disk on fire" {
		t.Errorf("got %v", err)
	}
	if roles := stored[*rbacv1.ClusterRole](t, api, "clusterroles"); len(roles) != 1 || len(roles[0].Rules) != 1 {
		t.Errorf("stored %v: one failure must not stop the others", roles)
	}
	want.ClusterRoles[1].Rules = append(want.ClusterRoles[1].Rules, rule("list"))
	conflicts, broken = 100, ""
	if err := bootstrap.Ensure(t.Context(), api, want); err == nil || !strings.Contains(err.Error(), "somebody else was here") {
		t.Errorf("got %v", err)
	}
}

// slow answers that nothing exists, and creates in a second.
type slow struct {
	bootstrap.Access
	now, most atomic.Int32
	bindings  atomic.Int32 // created while roles were missing
	roles     atomic.Int32
}

func (*slow) Get(_ context.Context, t client.Target) (runtime.Object, error) {
	return nil, apierrors.NewNotFound(t.Resource.GroupResource(), t.Name)
}

func (s *slow) Create(_ context.Context, t client.Target, obj runtime.Object, _ metav1.CreateOptions) (runtime.Object, error) {
	if n := s.now.Add(1); n > s.most.Load() {
		s.most.Store(n)
	}
	defer s.now.Add(-1)
	if t.Resource.Resource == "clusterrolebindings" && s.roles.Load() < 40 {
		s.bindings.Add(1)
	}
	time.Sleep(time.Second)
	if t.Resource.Resource == "clusterroles" {
		s.roles.Add(1)
	}
	return obj, nil
}

// Forty roles and a binding take three rounds of writes instead of 41, at most 32 at the same time, the binding last.
func TestEnsureAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		policy := rbac.Policy{ClusterRoleBindings: []*rbacv1.ClusterRoleBinding{{ObjectMeta: metav1.ObjectMeta{Name: "x"}}}}
		for i := range 40 {
			policy.ClusterRoles = append(policy.ClusterRoles, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("x", i)}})
		}
		a, start := &slow{}, time.Now()
		if err := bootstrap.Ensure(t.Context(), a, policy); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(start); took != 3*time.Second {
			t.Errorf("took %v", took)
		}
		if n := a.most.Load(); n != 32 {
			t.Errorf("%d at the same time", n)
		}
		if a.bindings.Load() > 0 {
			t.Error("a binding was created before its role")
		}
	})
}
