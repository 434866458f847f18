package authorization_test

import (
	"cmp"
	"flag"
	"maps"
	"slices"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kubernetes/plugin/pkg/auth/authorizer/rbac/bootstrappolicy"

	"github.com/keelson-dev/keelson/authz/rbac/bootstrap"
)

var (
	requests = flag.Int("requests", 50_000, "how many requests each authorizer is asked")
	seed     = flag.Int64("seed", 1, "seed of what is random")
)

func TestDefaultPolicy(t *testing.T) {
	ours := bootstrap.Policy()
	var roles, bindings []metav1.Object
	for _, r := range slices.Concat(bootstrappolicy.ClusterRoles(), bootstrappolicy.ControllerRoles()) {
		roles = append(roles, &r)
	}
	for _, b := range slices.Concat(bootstrappolicy.ClusterRoleBindings(), bootstrappolicy.ControllerRoleBindings()) {
		bindings = append(bindings, &b)
	}
	var gathered []metav1.Object
	for _, r := range ours.ClusterRoles {
		if r.AggregationRule != nil {
			r.Rules = nil // upstream leaves them to a controller
		}
		gathered = append(gathered, r)
	}
	same(t, gathered, roles)
	same(t, objects(ours.ClusterRoleBindings), bindings)
	same(t, objects(ours.Roles), namespaced(bootstrappolicy.NamespaceRoles(), func(r rbacv1.Role) metav1.Object { return &r }))
	same(t, objects(ours.RoleBindings), namespaced(bootstrappolicy.NamespaceRoleBindings(), func(b rbacv1.RoleBinding) metav1.Object { return &b }))
	if !equality.Semantic.DeepEqual(bootstrap.NodeRules(), bootstrappolicy.NodeRules()) {
		t.Error("the rules of nodes differ")
	}
}

func objects[T metav1.Object](list []T) []metav1.Object {
	var all []metav1.Object
	for _, obj := range list {
		all = append(all, obj)
	}
	return all
}

func namespaced[T any](by map[string][]T, object func(T) metav1.Object) []metav1.Object {
	var all []metav1.Object
	for _, namespace := range slices.Sorted(maps.Keys(by)) {
		for _, obj := range by[namespace] {
			all = append(all, object(obj))
		}
	}
	return all
}

// same compares objects in any order.
func same(t *testing.T, ours, theirs []metav1.Object) {
	t.Helper()
	byName := func(a, b metav1.Object) int {
		return cmp.Or(cmp.Compare(a.GetNamespace(), b.GetNamespace()), cmp.Compare(a.GetName(), b.GetName()))
	}
	slices.SortFunc(ours, byName)
	slices.SortFunc(theirs, byName)
	if len(ours) != len(theirs) {
		t.Errorf("%d objects, upstream has %d", len(ours), len(theirs))
		return
	}
	for i := range ours {
		if !equality.Semantic.DeepEqual(ours[i], theirs[i]) {
			t.Errorf("got %+v, upstream has %+v", ours[i], theirs[i])
		}
	}
}
