package authorization_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/kubernetes/pkg/registry/rbac/validation"
	upstream "k8s.io/kubernetes/plugin/pkg/auth/authorizer/rbac"

	"github.com/keelson-dev/keelson/authn"
	"github.com/keelson-dev/keelson/authz"
	"github.com/keelson-dev/keelson/authz/alwaysdeny"
	"github.com/keelson-dev/keelson/authz/rbac"
	"github.com/keelson-dev/keelson/authz/rbac/bootstrap"
)

// static gives upstream access to a policy.
type static struct{ p rbac.Policy }

func (s static) GetRole(_ context.Context, namespace, name string) (*rbacv1.Role, error) {
	for _, r := range s.p.Roles {
		if r.Namespace == namespace && r.Name == name {
			return r, nil
		}
	}
	return nil, &rbac.NotFoundError{Kind: "Role", Namespace: namespace, Name: name}
}

func (s static) GetClusterRole(_ context.Context, name string) (*rbacv1.ClusterRole, error) {
	for _, r := range s.p.ClusterRoles {
		if r.Name == name {
			return r, nil
		}
	}
	return nil, &rbac.NotFoundError{Kind: "ClusterRole", Name: name}
}

func (s static) ListRoleBindings(_ context.Context, namespace string) ([]*rbacv1.RoleBinding, error) {
	var list []*rbacv1.RoleBinding
	for _, b := range s.p.RoleBindings {
		if b.Namespace == namespace {
			list = append(list, b)
		}
	}
	return list, nil
}

func (s static) ListClusterRoleBindings(context.Context) ([]*rbacv1.ClusterRoleBinding, error) {
	return s.p.ClusterRoleBindings, nil
}

// world makes policies and requests that are related.
type world struct {
	*rand.Rand
	policy                                           rbac.Policy
	users, groups, names, resources, apiGroups, urls []string
}

func (w *world) pick(of ...string) string { return of[w.Intn(len(of))] }

func newWorld(seed int64) *world {
	w := &world{Rand: rand.New(rand.NewSource(seed)), policy: bootstrap.Policy(), names: []string{"", "x"}}
	var roles []string
	for _, r := range w.policy.ClusterRoles {
		roles = append(roles, r.Name)
		for _, rule := range r.Rules {
			w.resources = append(w.resources, rule.Resources...)
			w.apiGroups = append(w.apiGroups, rule.APIGroups...)
			w.names = append(w.names, rule.ResourceNames...)
			for _, url := range rule.NonResourceURLs {
				w.urls = append(w.urls, url, strings.TrimSuffix(url, "*")+"x")
			}
		}
	}
	for _, b := range w.policy.ClusterRoleBindings {
		for _, s := range b.Subjects {
			switch s.Kind {
			case rbacv1.GroupKind:
				w.groups = append(w.groups, s.Name)
			case rbacv1.UserKind:
				w.users = append(w.users, s.Name)
			default:
				w.users = append(w.users, "system:serviceaccount:"+s.Namespace+":"+s.Name)
			}
		}
	}
	w.users = append(w.users, "ann", "bob", "system:serviceaccount:dev:sa")
	w.groups = append(w.groups, "g1", "g2")
	for i := range 40 {
		w.bind(fmt.Sprintf("b%02d", i), append(roles, "gone1", "gone2"))
	}
	byName := func(a, b string) int { return strings.Compare(a, b) }
	slices.SortFunc(w.policy.ClusterRoleBindings, func(a, b *rbacv1.ClusterRoleBinding) int { return byName(a.Name, b.Name) })
	slices.SortFunc(w.policy.RoleBindings, func(a, b *rbacv1.RoleBinding) int { return byName(a.Name, b.Name) })
	return w
}

func (w *world) bind(name string, roles []string) {
	var subjects []rbacv1.Subject
	for range 1 + w.Intn(3) {
		subjects = append(subjects, []rbacv1.Subject{
			{Kind: "User", Name: w.pick("ann", "bob")}, {Kind: "Group", Name: w.pick("g1", "g2")},
			{Kind: "ServiceAccount", Namespace: w.pick("", "dev"), Name: "sa"}, {Kind: "Odd", Name: "ann"},
		}[w.Intn(4)])
	}
	ref := rbacv1.RoleRef{Kind: w.pick("ClusterRole", "ClusterRole", "Role"), Name: w.pick(roles...)}
	if w.Intn(4) == 0 && ref.Name != "cluster-admin" {
		ref.Kind = "ClusterRole"
		w.policy.ClusterRoleBindings = append(w.policy.ClusterRoleBindings, &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: name}, Subjects: subjects, RoleRef: ref})
		return
	}
	meta := metav1.ObjectMeta{Namespace: w.pick("dev", "kube-system"), Name: name}
	w.policy.RoleBindings = append(w.policy.RoleBindings, &rbacv1.RoleBinding{ObjectMeta: meta, Subjects: subjects, RoleRef: ref})
}

func (w *world) request() authz.Attributes {
	id := &authn.Identity{Name: w.pick(w.users...)}
	for range w.Intn(4) {
		id.Groups = append(id.Groups, w.pick(w.groups...))
	}
	a := authz.Attributes{User: id, Verb: w.pick("get", "list", "watch", "create", "update", "patch", "delete", "deletecollection", "bind", "escalate", "approve", "*")}
	if a.ResourceRequest = w.Intn(8) > 0; !a.ResourceRequest {
		a.Path = w.pick(w.urls...)
		return a
	}
	a.Group, a.Namespace, a.Name = w.pick(w.apiGroups...), w.pick("", "kube-system", "kube-public", "dev"), w.pick(w.names...)
	a.Resource, a.Subresource, _ = strings.Cut(w.pick(w.resources...), "/")
	return a
}

func record(a authz.Attributes) authorizer.AttributesRecord {
	return authorizer.AttributesRecord{
		User: &user.DefaultInfo{Name: a.User.Name, Groups: a.User.Groups}, Verb: a.Verb, APIGroup: a.Group, Resource: a.Resource,
		Subresource: a.Subresource, Namespace: a.Namespace, Name: a.Name, Path: a.Path, ResourceRequest: a.ResourceRequest,
	}
}

func compare(t *testing.T, theirs authorizer.UnconditionalAuthorizer, ours authz.Authorizer, a authz.Attributes, r authorizer.AttributesRecord) bool {
	t.Helper()
	decision, reason, theirErr := theirs.Authorize(t.Context(), r)
	got, err := ours.Authorize(t.Context(), a)
	allowed := decision == authorizer.DecisionAllow
	if allowed != (got.Verdict == authz.Allow) || reason != got.Why(a) || (theirErr == nil) != (err == nil) {
		t.Fatalf("%+v by %+v: got %+v, %v; upstream %v %q, %v", a, a.User, got, err, decision, reason, theirErr)
	}
	return allowed
}

func TestRBAC(t *testing.T) {
	w := newWorld(*seed)
	s := static{w.policy}
	theirs, ours := upstream.New(s, s, s, s), rbac.New(w.policy.Sources())
	allowed := 0
	for i := range *requests {
		a := w.request()
		if compare(t, theirs, ours, a, record(a)) {
			allowed++
		}
		if i%50 == 0 {
			compareRules(t, theirs, ours, a)
			compareSubjects(t, s, ours, a)
			compareEscalation(t, s, ours, a, w.policy.ClusterRoles[w.Intn(len(w.policy.ClusterRoles))].Rules)
		}
	}
	t.Logf("%d of %d requests allowed", allowed, *requests)
	if *requests >= 1000 && allowed < *requests/20 {
		t.Error("too few requests are allowed to tell much")
	}
}

func compareRules(t *testing.T, theirs *upstream.RBACAuthorizer, ours *rbac.Authorizer, a authz.Attributes) {
	t.Helper()
	resources, paths, incomplete, theirErr := theirs.RulesFor(t.Context(), record(a).User, a.Namespace)
	rules, err := ours.RulesFor(t.Context(), a.User, a.Namespace)
	var want, got []string
	for _, r := range resources {
		want = append(want, fmt.Sprint(r.GetVerbs(), r.GetAPIGroups(), r.GetResources(), r.GetResourceNames()))
	}
	for _, r := range paths {
		want = append(want, fmt.Sprint(r.GetVerbs(), r.GetNonResourceURLs()))
	}
	for _, r := range rules.Resources {
		got = append(got, fmt.Sprint(r.Verbs, r.Groups, r.Resources, r.ResourceNames))
	}
	for _, r := range rules.Paths {
		got = append(got, fmt.Sprint(r.Verbs, r.Paths))
	}
	if !slices.Equal(got, want) || incomplete != rules.Incomplete || fmt.Sprint(err) != fmt.Sprint(theirErr) {
		t.Fatalf("rules of %+v in %q: got %v, %v; upstream %v, %v", a.User, a.Namespace, got, err, want, theirErr)
	}
}

// compareSubjects compares sets: upstream repeats subjects as often as bindings do, and leaves the namespace of service
// accounts empty.
func compareSubjects(t *testing.T, s static, ours *rbac.Authorizer, a authz.Attributes) {
	t.Helper()
	theirs, theirErr := upstream.NewSubjectAccessEvaluator(s, s, s, s, "").AllowedSubjects(t.Context(), record(a))
	got, err := ours.WhoCan(t.Context(), a)
	names := func(subjects []rbacv1.Subject) []string {
		set := map[string]bool{}
		for _, s := range subjects {
			set[s.Kind+" "+s.Name] = true
		}
		return slices.Sorted(maps.Keys(set))
	}
	if !slices.Equal(names(theirs), names(got)) || fmt.Sprint(err) != fmt.Sprint(theirErr) {
		t.Fatalf("who can %+v: got %v, %v; upstream %v, %v", a, got, err, theirs, theirErr)
	}
}

func compareEscalation(t *testing.T, s static, ours *rbac.Authorizer, a authz.Attributes, wanted []rbacv1.PolicyRule) {
	t.Helper()
	if slices.Contains(a.User.Groups, authn.GroupMasters) {
		return // upstream does not ask for them
	}
	ctx := request.WithNamespace(request.WithUser(t.Context(), record(a).User), a.Namespace)
	want := validation.ConfirmNoEscalation(ctx, validation.NewDefaultRuleResolver(s, s, s, s), wanted)
	got := rbac.NewEscalation(ours, alwaysdeny.New()).CheckRole(authn.NewContext(t.Context(), a.User), a.Namespace, "", wanted, false)
	if fmt.Sprint(want) != fmt.Sprint(got) {
		t.Fatalf("escalation by %+v in %q: got %v, upstream %v", a.User, a.Namespace, got, want)
	}
	var refusal *rbac.EscalationError
	if got != nil && !errors.As(got, &refusal) {
		t.Fatalf("the refusal is a %T", got)
	}
}
