package bootstrap_test

import (
	"fmt"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/authz/rbac"
	"github.com/keelson-dev/keelson/authz/rbac/bootstrap"
)

// testdata/policy.txt is upstream v1.37.1's policy as its own code makes it, in this form.
func dump(p rbac.Policy) string {
	var s strings.Builder
	for _, r := range p.ClusterRoles {
		header(&s, "ClusterRole", r)
		if r.AggregationRule != nil {
			for _, selector := range r.AggregationRule.ClusterRoleSelectors {
				for _, key := range slices.Sorted(maps.Keys(selector.MatchLabels)) {
					fmt.Fprintf(&s, "  aggregates %s=%s\n", key, selector.MatchLabels[key])
				}
			}
			continue
		}
		rules(&s, r.Rules)
	}
	for _, b := range p.ClusterRoleBindings {
		header(&s, "ClusterRoleBinding", b)
		binding(&s, b.RoleRef, b.Subjects)
	}
	for _, r := range p.Roles {
		header(&s, "Role", r)
		rules(&s, r.Rules)
	}
	for _, b := range p.RoleBindings {
		header(&s, "RoleBinding", b)
		binding(&s, b.RoleRef, b.Subjects)
	}
	return s.String()
}

func header(s *strings.Builder, kind string, obj metav1.Object) {
	fmt.Fprintf(s, "%s %s", kind, qualified(obj.GetNamespace(), obj.GetName()))
	for _, set := range []map[string]string{obj.GetLabels(), obj.GetAnnotations()} {
		for _, key := range slices.Sorted(maps.Keys(set)) {
			fmt.Fprintf(s, " %s=%s", key, set[key])
		}
	}
	s.WriteByte('\n')
}

func qualified(namespace, name string) string {
	if namespace == "" {
		return name
	}
	return namespace + "/" + name
}

func rules(s *strings.Builder, rules []rbacv1.PolicyRule) {
	list := func(values []string) string {
		values = slices.Clone(values)
		for i, value := range values {
			if value == "" {
				values[i] = `""`
			}
		}
		return strings.Join(values, ",")
	}
	for _, r := range rules {
		fmt.Fprintf(s, "  verbs=%s groups=%s resources=%s names=%s paths=%s\n",
			list(r.Verbs), list(r.APIGroups), list(r.Resources), list(r.ResourceNames), list(r.NonResourceURLs))
	}
}

func binding(s *strings.Builder, ref rbacv1.RoleRef, subjects []rbacv1.Subject) {
	fmt.Fprintf(s, "  to %s %s %s\n", ref.APIGroup, ref.Kind, ref.Name)
	for _, subject := range subjects {
		group := subject.APIGroup
		if group == "" {
			group = "-"
		}
		fmt.Fprintf(s, "  subject %s %s %s\n", subject.Kind, group, qualified(subject.Namespace, subject.Name))
	}
}

func TestPolicyIsUpstreams(t *testing.T) {
	want, err := os.ReadFile("testdata/policy.txt")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(dump(bootstrap.Policy()), "\n")); diff != "" {
		t.Errorf("(-upstream +ours)\n%s", diff)
	}
}

func TestAggregatedRoles(t *testing.T) {
	of := map[string][]rbacv1.PolicyRule{}
	for _, r := range bootstrap.Policy().ClusterRoles {
		of[r.Name] = r.Rules
	}
	for name, want := range map[string][]rbacv1.PolicyRule{
		"view":  of["system:aggregate-to-view"],
		"edit":  slices.Concat(of["system:aggregate-to-edit"], of["system:aggregate-to-view"]),
		"admin": slices.Concat(of["system:aggregate-to-edit"], of["system:aggregate-to-view"], of["system:aggregate-to-admin"]),
	} {
		if len(want) == 0 || !reflect.DeepEqual(of[name], want) {
			t.Errorf("%s has %d rules, want %d:\n%s", name, len(of[name]), len(want), cmp.Diff(want, of[name]))
		}
	}
}

func TestPolicyIsTheCallers(t *testing.T) {
	before := dump(bootstrap.Policy())
	changed := bootstrap.Policy()
	for _, r := range changed.ClusterRoles {
		r.Labels["x"], r.Annotations["x"] = "y", "y"
		for i := range r.Rules {
			r.Rules[i].Verbs[0] = "changed"
		}
	}
	bootstrap.NodeRules()[0].Verbs[0] = "changed"
	if after := dump(bootstrap.Policy()); after != before {
		t.Error("a change of one policy shows in the next")
	}
}

func BenchmarkPolicy(b *testing.B) {
	for b.Loop() {
		bootstrap.Policy()
	}
}
