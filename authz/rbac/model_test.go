package rbac_test

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"pgregory.net/rapid"

	"github.com/keelson-dev/keelson/authn"
	"github.com/keelson-dev/keelson/authz"
	"github.com/keelson-dev/keelson/authz/rbac"
	"github.com/keelson-dev/keelson/authz/rbac/bootstrap"
)

// scan is the evaluator one would write without an index: every binding, every rule.
func scan(p rbac.Policy, a authz.Attributes) bool {
	applies := func(subjects []rbacv1.Subject, namespace string) bool {
		for _, s := range subjects {
			home := cmp.Or(s.Namespace, namespace)
			switch {
			case s.Kind == "User" && s.Name == a.User.Name,
				s.Kind == "Group" && slices.Contains(a.User.Groups, s.Name),
				s.Kind == "ServiceAccount" && home != "" && a.User.Name == "system:serviceaccount:"+home+":"+s.Name:
				return true
			}
		}
		return false
	}
	clusterRules := func(name string) []rbacv1.PolicyRule {
		for _, r := range p.ClusterRoles {
			if r.Name == name {
				return r.Rules
			}
		}
		return nil
	}
	var rules []rbacv1.PolicyRule
	for _, b := range p.ClusterRoleBindings {
		if applies(b.Subjects, "") {
			rules = append(rules, clusterRules(b.RoleRef.Name)...)
		}
	}
	for _, b := range p.RoleBindings {
		if b.Namespace != a.Namespace || a.Namespace == "" || !applies(b.Subjects, b.Namespace) {
			continue
		}
		if b.RoleRef.Kind == "ClusterRole" {
			rules = append(rules, clusterRules(b.RoleRef.Name)...)
		}
		for _, r := range p.Roles {
			if b.RoleRef.Kind == "Role" && r.Namespace == b.Namespace && r.Name == b.RoleRef.Name {
				rules = append(rules, r.Rules...)
			}
		}
	}
	return slices.ContainsFunc(rules, func(r rbacv1.PolicyRule) bool { return scanRule(r, a) })
}

func scanRule(r rbacv1.PolicyRule, a authz.Attributes) bool {
	in := func(list []string, value string) bool {
		return slices.Contains(list, "*") || slices.Contains(list, value)
	}
	if !in(r.Verbs, a.Verb) {
		return false
	}
	if !a.ResourceRequest {
		return slices.ContainsFunc(r.NonResourceURLs, func(p string) bool {
			prefix, star := strings.CutSuffix(p, "*")
			return p == a.Path || star && strings.HasPrefix(a.Path, prefix)
		})
	}
	resource := a.Resource
	if a.Subresource != "" {
		resource += "/" + a.Subresource
	}
	return in(r.APIGroups, a.Group) && (in(r.Resources, resource) || a.Subresource != "" && slices.Contains(r.Resources, "*/"+a.Subresource)) &&
		(len(r.ResourceNames) == 0 || slices.Contains(r.ResourceNames, a.Name))
}

var (
	someNames      = rapid.SampledFrom([]string{"a", "b", "c", ""})
	someNamespaces = rapid.SampledFrom([]string{"n1", "n2", ""})
	someVerbs      = rapid.SampledFrom([]string{"get", "list", "delete", "*"})
	someGroups     = rapid.SampledFrom([]string{"", "apps", "*"})
	someResources  = rapid.SampledFrom([]string{"pods", "pods/log", "nodes/log", "*/log", "*"})
	somePaths      = rapid.SampledFrom([]string{"/a", "/a/*", "/a/b", "*", "/b*"})
	someSubjects   = rapid.Custom(func(t *rapid.T) rbacv1.Subject {
		return rbacv1.Subject{
			Kind: rapid.SampledFrom([]string{"User", "Group", "ServiceAccount", "Other"}).Draw(t, "kind"),
			Name: someNames.Draw(t, "subject"), Namespace: someNamespaces.Draw(t, "of"),
		}
	})
	someRules = rapid.Custom(func(t *rapid.T) rbacv1.PolicyRule {
		few := func(g *rapid.Generator[string], label string) []string { return rapid.SliceOfN(g, 0, 2).Draw(t, label) }
		if rapid.Bool().Draw(t, "path") {
			return rbacv1.PolicyRule{Verbs: few(someVerbs, "verbs"), NonResourceURLs: few(somePaths, "urls")}
		}
		return rbacv1.PolicyRule{Verbs: few(someVerbs, "verbs"), APIGroups: few(someGroups, "groups"), Resources: few(someResources, "resources"), ResourceNames: few(someNames, "names")}
	})
)

func somePolicy(t *rapid.T) rbac.Policy {
	var p rbac.Policy
	rules := func() []rbacv1.PolicyRule {
		some := rapid.SliceOfN(someRules, 0, 3).Draw(t, "rules")
		if rapid.Bool().Draw(t, "many") { // which are indexed
			some = append(some, make([]rbacv1.PolicyRule, 8)...)
		}
		return some
	}
	subjects := func() []rbacv1.Subject { return rapid.SliceOfN(someSubjects, 0, 3).Draw(t, "subjects") }
	for _, name := range []string{"r1", "r2"} {
		p.ClusterRoles = append(p.ClusterRoles, clusterRole(name, rules()...))
		for _, namespace := range []string{"n1", "n2"} {
			p.Roles = append(p.Roles, role(namespace, name, rules()...))
		}
	}
	names := rapid.SampledFrom([]string{"r1", "r2", "gone"})
	for i := range rapid.IntRange(0, 4).Draw(t, "bindings") {
		p.ClusterRoleBindings = append(p.ClusterRoleBindings, bindCluster(fmt.Sprint("b", i), names.Draw(t, "ref"), subjects()...))
		kind := rapid.SampledFrom([]string{"Role", "ClusterRole"}).Draw(t, "kind")
		p.RoleBindings = append(p.RoleBindings, bind(fmt.Sprint("n", 1+i%2), fmt.Sprint("b", i), kind, names.Draw(t, "ref"), subjects()...))
	}
	return p
}

func someRequest(t *rapid.T) authz.Attributes {
	a := authz.Attributes{
		User: &authn.Identity{
			Name:   rapid.SampledFrom([]string{"a", "b", "system:serviceaccount:n1:a", "system:serviceaccount:n2:b", ""}).Draw(t, "user"),
			Groups: rapid.SliceOfN(someNames, 0, 3).Draw(t, "member"),
		},
		Verb: rapid.SampledFrom([]string{"get", "list", "delete"}).Draw(t, "verb"),
	}
	if a.ResourceRequest = rapid.Bool().Draw(t, "resource"); !a.ResourceRequest {
		a.Path = rapid.SampledFrom([]string{"/a", "/a/", "/a/b", "/b", "/bb", ""}).Draw(t, "path")
		return a
	}
	a.Group = rapid.SampledFrom([]string{"", "apps"}).Draw(t, "group")
	a.Resource = rapid.SampledFrom([]string{"pods", "nodes"}).Draw(t, "resource")
	a.Subresource = rapid.SampledFrom([]string{"", "log", "exec"}).Draw(t, "subresource")
	a.Name, a.Namespace = someNames.Draw(t, "name"), someNamespaces.Draw(t, "namespace")
	return a
}

// A decision, its explanation, the list of rules and the list of subjects must tell one story,
// and it is that of the plain scan.
func TestAgreesWithPlainScan(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		p := somePolicy(rt)
		z := rbac.New(p.Sources())
		for range 5 {
			a := someRequest(rt)
			want := scan(p, a)
			e, err := z.Explain(t.Context(), a)
			if err != nil || (e.Decision.Verdict == authz.Allow) != want {
				rt.Fatalf("%+v: decision %v, %v; want allowed %v", a, e.Decision, err, want)
			}
			if byRule := slices.ContainsFunc(e.Considered, func(c rbac.Considered) bool { return c.Rule != nil && scanRule(*c.Rule, a) }); byRule != want {
				rt.Fatalf("%+v: explained %v, want allowed %v", a, e, want)
			}
			rules, _ := z.PolicyRules(a.User, a.Namespace)
			if listed := slices.ContainsFunc(rules, func(r rbacv1.PolicyRule) bool { return scanRule(r, a) }); listed != want {
				rt.Fatalf("%+v: listed %v, want allowed %v", a, rules, want)
			}
			subjects, _ := z.WhoCan(t.Context(), a)
			named := scan(rbac.Policy{
				ClusterRoles:        []*rbacv1.ClusterRole{clusterRole("all", on(list("*"), list("*"), list("*")), rbacv1.PolicyRule{Verbs: list("*"), NonResourceURLs: list("*")})},
				ClusterRoleBindings: []*rbacv1.ClusterRoleBinding{bindCluster("b", "all", subjects[1:]...)},
			}, a)
			if named != want {
				rt.Fatalf("%+v: subjects %v, want allowed %v", a, subjects, want)
			}
		}
	})
}

// Whoever holds the rules that Uncovered finds nothing missing from may do all they allow.
func TestUncoveredMissesNothing(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		held, wanted := rapid.SliceOfN(someRules, 0, 4).Draw(rt, "held"), rapid.SliceOfN(someRules, 0, 3).Draw(rt, "wanted")
		a := someRequest(rt)
		allows := func(rules []rbacv1.PolicyRule) bool {
			return slices.ContainsFunc(rules, func(r rbacv1.PolicyRule) bool { return scanRule(r, a) })
		}
		missing := rbac.Uncovered(held, wanted)
		if allows(wanted) && !allows(held) && !allows(missing) {
			rt.Fatalf("%+v is allowed by %v, not by %v, and is not among the missing %v", a, wanted, held, missing)
		}
		if len(rbac.Uncovered(slices.Concat(held, missing), wanted)) != 0 {
			rt.Fatalf("holding what is missing is not enough: %v", missing)
		}
	})
}

func BenchmarkAuthorize(b *testing.B) {
	p := bootstrap.Policy()
	for i := range 1000 {
		name := fmt.Sprint("team-", i)
		p.RoleBindings = append(p.RoleBindings, bind(name, "edit", "ClusterRole", "edit", group(name)))
	}
	z := rbac.New(p.Sources())
	controller := who("system:serviceaccount:kube-system:deployment-controller", "system:serviceaccounts", "system:serviceaccounts:kube-system", "system:authenticated")
	dev := who("ann", "team-500", "system:authenticated")
	for name, c := range map[string]struct {
		ask  authz.Attributes
		want authz.Verdict
	}{
		"controller": {ask(controller, "create", "apps", "replicasets", "team-1", ""), authz.Allow},
		"scheduler":  {ask(who("system:kube-scheduler", "system:authenticated"), "create", "", "pods/binding", "team-1", "p"), authz.Allow},
		"edit":       {ask(dev, "create", "", "pods", "team-500", ""), authz.Allow},
		"denied":     {ask(dev, "create", "", "pods", "team-501", ""), authz.NoOpinion},
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if d, err := z.Authorize(b.Context(), c.ask); err != nil || d.Verdict != c.want {
					b.Fatal(d, err)
				}
			}
		})
	}
}
