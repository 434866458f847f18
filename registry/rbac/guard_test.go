package rbac_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/registry"
)

var errGuarded = errors.New("guarded")

// notary refuses every write and records what it was asked.
type notary struct{ asked []string }

func (n *notary) CheckRole(_ context.Context, namespace, name string, rules []rbacv1.PolicyRule, aggregates bool) error {
	n.asked = append(n.asked, fmt.Sprintf("role namespace=%q name=%q rules=%d aggregates=%v", namespace, name, len(rules), aggregates))
	return errGuarded
}

func (n *notary) CheckBinding(_ context.Context, namespace string, ref rbacv1.RoleRef) error {
	n.asked = append(n.asked, fmt.Sprintf("binding namespace=%q role=%s/%s", namespace, ref.Kind, ref.Name))
	return errGuarded
}

// TestGuardAsksAboutEveryWrite: every create and update of each kind is checked with the right arguments,
// except for the garbage collector's changes before a delete.
func TestGuardAsksAboutEveryWrite(t *testing.T) {
	local, global := metav1.ObjectMeta{Namespace: "dev", Name: "x"}, metav1.ObjectMeta{Name: "x"}
	rules := []rbacv1.PolicyRule{{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"pods"}}}
	ref := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "admin"}
	for plural, tt := range map[string]struct {
		obj            registry.Object
		grant          func(registry.Object) // changes what is granted
		create, update string                // the expected question
	}{
		"roles": {
			&rbacv1.Role{ObjectMeta: local, Rules: rules},
			func(obj registry.Object) { obj.(*rbacv1.Role).Rules = append(rules, rules...) },
			`role namespace="dev" name="" rules=1 aggregates=false`, `role namespace="dev" name="x" rules=%d aggregates=false`,
		},
		"clusterroles": {
			&rbacv1.ClusterRole{ObjectMeta: global, Rules: rules},
			func(obj registry.Object) { obj.(*rbacv1.ClusterRole).Rules = append(rules, rules...) },
			`role namespace="" name="" rules=1 aggregates=false`, `role namespace="" name="x" rules=%d aggregates=false`,
		},
		"rolebindings": {
			&rbacv1.RoleBinding{ObjectMeta: local, RoleRef: ref},
			func(obj registry.Object) {
				obj.(*rbacv1.RoleBinding).Subjects = []rbacv1.Subject{{Kind: "User", Name: "eve"}}
			},
			`binding namespace="dev" role=ClusterRole/admin`, `binding namespace="dev" role=ClusterRole/admin`,
		},
		"clusterrolebindings": {
			&rbacv1.ClusterRoleBinding{ObjectMeta: global, RoleRef: ref},
			func(obj registry.Object) {
				obj.(*rbacv1.ClusterRoleBinding).Subjects = []rbacv1.Subject{{Kind: "User", Name: "eve"}}
			},
			`binding namespace="" role=ClusterRole/admin`, `binding namespace="" role=ClusterRole/admin`,
		},
	} {
		t.Run(plural, func(t *testing.T) {
			collected := func(obj registry.Object) {
				obj.SetOwnerReferences([]metav1.OwnerReference{{Name: "o"}})
				obj.SetFinalizers([]string{"orphan"})
				obj.SetManagedFields([]metav1.ManagedFieldsEntry{{Manager: "gc"}})
				obj.SetResourceVersion("7")
			}
			updated := func(rules int) string {
				if strings.Contains(tt.update, "%d") {
					return fmt.Sprintf(tt.update, rules)
				}
				return tt.update
			}
			for name, write := range map[string]struct {
				change func(registry.Object) // nil for a create
				asked  string
			}{
				"create":            {nil, tt.create},
				"grant":             {tt.grant, updated(2)},
				"label":             {func(obj registry.Object) { obj.SetLabels(map[string]string{"a": "b"}) }, updated(1)},
				"annotation":        {func(obj registry.Object) { obj.SetAnnotations(map[string]string{"a": "b"}) }, updated(1)},
				"nothing":           {func(registry.Object) {}, ""},
				"collection":        {collected, ""},
				"grant, collection": {func(obj registry.Object) { tt.grant(obj); collected(obj) }, updated(2)},
			} {
				var (
					n   notary
					obj = tt.obj.DeepCopyObject().(registry.Object)
					old registry.Object
				)
				if write.change != nil {
					old = tt.obj
					write.change(obj)
				}
				err := kind(t, &n, plural).Rules.Guard(t.Context(), obj, old)
				if got := strings.Join(n.asked, "; "); got != write.asked {
					t.Errorf("%s: asked %q, want %q", name, got, write.asked)
				}
				if refusal := (*registry.Error)(nil); write.asked == "" && err != nil ||
					write.asked != "" && (!errors.As(err, &refusal) || refusal.Resource.Resource != plural || refusal.Message != errGuarded.Error()) {
					t.Errorf("%s: got %v", name, err)
				}
			}
		})
	}
}

// TestGuardOfAggregation: writing a role that aggregates others, or did before, requires all permissions.
func TestGuardOfAggregation(t *testing.T) {
	plain := func() *rbacv1.ClusterRole { return &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "x"}} }
	gathering := plain()
	gathering.AggregationRule = &rbacv1.AggregationRule{ClusterRoleSelectors: []metav1.LabelSelector{{}}}
	empty := plain()
	empty.AggregationRule = &rbacv1.AggregationRule{}
	relabelled := gathering.DeepCopy()
	relabelled.Labels = map[string]string{"a": "b"}
	for name, tt := range map[string]struct {
		obj, old registry.Object
		want     bool
	}{
		"created":        {gathering, nil, true},
		"created empty":  {empty, nil, false},
		"created plain":  {plain(), nil, false},
		"from now on":    {gathering, plain(), true},
		"no longer":      {plain(), gathering, true},
		"as before":      {relabelled, gathering, true},
		"empty, to none": {plain(), empty, false},
	} {
		var n notary
		_ = kind(t, &n, "clusterroles").Rules.Guard(t.Context(), tt.obj, tt.old)
		if len(n.asked) != 1 || strings.HasSuffix(n.asked[0], "aggregates=true") != tt.want {
			t.Errorf("%s: asked %q", name, n.asked)
		}
	}
}
