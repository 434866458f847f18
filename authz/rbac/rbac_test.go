package rbac_test

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/authn"
	"github.com/keelson-dev/keelson/authz"
	"github.com/keelson-dev/keelson/authz/authztest"
	"github.com/keelson-dev/keelson/authz/rbac"
)

func clusterRole(name string, rules ...rbacv1.PolicyRule) *rbacv1.ClusterRole {
	return &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: rules}
}

func role(namespace, name string, rules ...rbacv1.PolicyRule) *rbacv1.Role {
	return &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Rules: rules}
}

func bindCluster(name, role string, subjects ...rbacv1.Subject) *rbacv1.ClusterRoleBinding {
	return &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Subjects: subjects,
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
	}
}

func bind(namespace, name, kind, role string, subjects ...rbacv1.Subject) *rbacv1.RoleBinding {
	return &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Subjects: subjects,
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: kind, Name: role},
	}
}

func user(name string) rbacv1.Subject {
	return rbacv1.Subject{Kind: "User", APIGroup: rbacv1.GroupName, Name: name}
}

func group(name string) rbacv1.Subject {
	return rbacv1.Subject{Kind: "Group", APIGroup: rbacv1.GroupName, Name: name}
}

func account(namespace, name string) rbacv1.Subject {
	return rbacv1.Subject{Kind: "ServiceAccount", Namespace: namespace, Name: name}
}

func on(verbs, groups, resources []string, names ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{Verbs: verbs, APIGroups: groups, Resources: resources, ResourceNames: names}
}

func list(values ...string) []string { return values }

var anyGroup = list("*")

// policy is small and has one of everything.
func policy() rbac.Policy {
	return rbac.Policy{
		ClusterRoles: []*rbacv1.ClusterRole{
			clusterRole("admin", on(list("*"), anyGroup, list("*")), rbacv1.PolicyRule{Verbs: list("*"), NonResourceURLs: list("*")}),
			clusterRole("reader", on(list("get", "list"), list(""), list("pods", "pods/log")), on(list("get"), list("apps"), list("*/scale"))),
			clusterRole("probes", rbacv1.PolicyRule{Verbs: list("get"), NonResourceURLs: list("/healthz", "/healthz/*")}),
		},
		ClusterRoleBindings: []*rbacv1.ClusterRoleBinding{
			bindCluster("admins", "admin", group("ops"), user("root")),
			bindCluster("dangling", "gone", user("bob")),
			bindCluster("probers", "probes", group("system:authenticated"), account("", "nowhere")),
			bindCluster("robots", "reader", account("ci", "robot")),
		},
		Roles: []*rbacv1.Role{
			role("dev", "writer", on(list("create", "update"), list(""), list("configmaps")), on(list("delete"), list(""), list("configmaps"), "scratch")),
		},
		RoleBindings: []*rbacv1.RoleBinding{
			bind("dev", "readers", "ClusterRole", "reader", user("ann")),
			bind("dev", "writers", "Role", "writer", account("", "builder"), user("ann")),
			bind("dev", "lost", "Role", "gone", user("bob"), user("bob")),
			bind("test", "writers", "Role", "writer", user("ann")),
			bind("dev", "odd", "Gadget", "x", user("odd")),
		},
	}
}

func who(name string, groups ...string) *authn.Identity {
	return &authn.Identity{Name: name, Groups: groups}
}

func ask(user *authn.Identity, verb, group, resource, namespace, name string) authz.Attributes {
	a := authz.Attributes{User: user, Verb: verb, Group: group, Version: "v1", Resource: resource, Namespace: namespace, Name: name, ResourceRequest: true}
	for i := range resource {
		if resource[i] == '/' {
			a.Resource, a.Subresource = resource[:i], resource[i+1:]
		}
	}
	return a
}

func path(user *authn.Identity, verb, path string) authz.Attributes {
	return authz.Attributes{User: user, Verb: verb, Path: path}
}

func TestAuthorize(t *testing.T) {
	ann, bob, robot := who("ann"), who("bob"), who("system:serviceaccount:ci:robot")
	builder, ops, all := who("system:serviceaccount:dev:builder"), who("eve", "dev", "ops"), who("eve", "system:authenticated")
	cases := []authztest.Case{
		{Name: "by group", Attributes: ask(ops, "delete", "apps", "deployments", "x", "y"), Want: authz.Allow,
			Reason: `RBAC: allowed by ClusterRoleBinding "admins" of ClusterRole "admin" to Group "ops"`},
		{Name: "by user", Attributes: ask(who("root", "ops"), "get", "", "nodes/proxy", "", "n"), Want: authz.Allow,
			Reason: `RBAC: allowed by ClusterRoleBinding "admins" of ClusterRole "admin" to Group "ops"`},
		{Name: "role binding of a cluster role", Attributes: ask(ann, "get", "", "pods", "dev", "p"), Want: authz.Allow,
			Reason: `RBAC: allowed by RoleBinding "readers/dev" of ClusterRole "reader" to User "ann"`},
		{Name: "not elsewhere", Attributes: ask(ann, "get", "", "pods", "prod", "p")},
		{Name: "not in all namespaces", Attributes: ask(ann, "list", "", "pods", "", "")},
		{Name: "role of another namespace", Attributes: ask(ann, "create", "", "configmaps", "test", ""),
			Reason: `RBAC: role.rbac.authorization.k8s.io "writer" not found`},
		{Name: "service account of the binding's namespace", Attributes: ask(builder, "create", "", "configmaps", "dev", ""), Want: authz.Allow,
			Reason: `RBAC: allowed by RoleBinding "writers/dev" of Role "writer" to ServiceAccount "builder/dev"`},
		{Name: "service account", Attributes: ask(robot, "list", "", "pods", "", ""), Want: authz.Allow,
			Reason: `RBAC: allowed by ClusterRoleBinding "robots" of ClusterRole "reader" to ServiceAccount "robot/ci"`},
		{Name: "service account in no namespace", Attributes: path(who("system:serviceaccount::nowhere"), "get", "/healthz")},
		{Name: "subresource", Attributes: ask(ann, "get", "", "pods/log", "dev", "p"), Want: authz.Allow},
		{Name: "another subresource", Attributes: ask(ann, "get", "", "pods/exec", "dev", "p")},
		{Name: "any resource's subresource", Attributes: ask(ann, "get", "apps", "deployments/scale", "dev", "d"), Want: authz.Allow},
		{Name: "not the resource itself", Attributes: ask(ann, "get", "apps", "deployments", "dev", "d")},
		{Name: "wrong group", Attributes: ask(ann, "get", "apps", "pods", "dev", "p")},
		{Name: "wrong verb", Attributes: ask(ann, "watch", "", "pods", "dev", "")},
		{Name: "named", Attributes: ask(ann, "delete", "", "configmaps", "dev", "scratch"), Want: authz.Allow},
		{Name: "of another name", Attributes: ask(ann, "delete", "", "configmaps", "dev", "precious")},
		{Name: "of no name", Attributes: ask(ann, "delete", "", "configmaps", "dev", "")},
		{Name: "path", Attributes: path(all, "get", "/healthz"), Want: authz.Allow},
		{Name: "path below", Attributes: path(all, "get", "/healthz/etcd"), Want: authz.Allow},
		{Name: "path beside", Attributes: path(all, "get", "/healthzz")},
		{Name: "path, wrong verb", Attributes: path(all, "post", "/healthz")},
		{Name: "every path", Attributes: path(ops, "put", "/anything"), Want: authz.Allow},
		{Name: "roles that do not exist", Attributes: ask(bob, "get", "", "pods", "dev", "p"),
			Reason: `RBAC: [clusterrole.rbac.authorization.k8s.io "gone" not found, role.rbac.authorization.k8s.io "gone" not found]`},
		{Name: "role of unknown kind", Attributes: ask(who("odd"), "get", "", "pods", "dev", "p"), Reason: `RBAC: unsupported role reference kind: "Gadget"`},
		{Name: "stranger", Attributes: ask(who("eve"), "get", "", "pods", "dev", "p")},
		{Name: "nobody", Attributes: ask(nil, "get", "", "pods", "dev", "p"), Fails: true},
	}
	authztest.Run(t, rbac.New(policy().Sources()), cases)
	t.Run("ManyRules", func(t *testing.T) { authztest.Run(t, rbac.New(padded(policy()).Sources()), cases) })
}

// padded gives every role so many more rules, which allow nothing, that they are indexed.
func padded(p rbac.Policy) rbac.Policy {
	for _, r := range p.Roles {
		r.Rules = append(r.Rules, make([]rbacv1.PolicyRule, 20)...)
	}
	for _, r := range p.ClusterRoles {
		r.Rules = append(r.Rules, make([]rbacv1.PolicyRule, 20)...)
	}
	return p
}

func TestRulesFor(t *testing.T) {
	z := rbac.New(policy().Sources())
	rules, err := z.RulesFor(t.Context(), who("ann", "system:authenticated"), "dev")
	want := authz.Rules{
		Resources: []authz.ResourceRule{
			{Verbs: list("get", "list"), Groups: list(""), Resources: list("pods", "pods/log")},
			{Verbs: list("get"), Groups: list("apps"), Resources: list("*/scale")},
			{Verbs: list("create", "update"), Groups: list(""), Resources: list("configmaps")},
			{Verbs: list("delete"), Groups: list(""), Resources: list("configmaps"), ResourceNames: list("scratch")},
		},
		Paths: []authz.PathRule{{Verbs: list("get"), Paths: list("/healthz", "/healthz/*")}},
	}
	if err != nil || !reflect.DeepEqual(rules, want) {
		t.Errorf("got %+v, %v; want %+v", rules, err, want)
	}
	rules, err = z.RulesFor(t.Context(), who("bob", "system:authenticated"), "dev")
	if len(rules.Paths) != 1 || err == nil {
		t.Errorf("got %+v, %v; want what could be found, and an error", rules, err)
	}
	if missing := (*rbac.NotFoundError)(nil); !errors.As(err, &missing) || missing.Name != "gone" {
		t.Errorf("error %v, want the missing role", err)
	}
	if _, err := z.RulesFor(t.Context(), nil, "dev"); !errors.Is(err, authz.ErrNoUser) {
		t.Errorf("without a user: %v", err)
	}
}

func TestExplain(t *testing.T) {
	z := rbac.New(policy().Sources())
	for name, c := range map[string]struct {
		ask  authz.Attributes
		want string
	}{
		"allowed": {ask(who("ann"), "delete", "", "configmaps", "dev", "scratch"), `allowed
  RoleBinding "readers/dev" of ClusterRole "reader" by User "ann": no rule allows it
  RoleBinding "writers/dev" of Role "writer" by User "ann": allows by {APIGroups:[""], Resources:["configmaps"], ResourceNames:["scratch"], Verbs:["delete"]}`},
		"not allowed": {ask(who("bob", "system:authenticated"), "get", "", "pods", "dev", ""), `not allowed
  ClusterRoleBinding "dangling" of ClusterRole "gone" by User "bob": clusterrole.rbac.authorization.k8s.io "gone" not found
  ClusterRoleBinding "probers" of ClusterRole "probes" by Group "system:authenticated": no rule allows it
  RoleBinding "lost/dev" of Role "gone" by User "bob": role.rbac.authorization.k8s.io "gone" not found`},
		"stranger": {ask(who("eve"), "get", "", "pods", "dev", ""), "not allowed: no binding applies to the user"},
	} {
		t.Run(name, func(t *testing.T) {
			e, err := z.Explain(t.Context(), c.ask)
			if err != nil || e.String() != c.want {
				t.Errorf("got %v\n%s\nwant\n%s", err, e, c.want)
			}
		})
	}
	if _, err := z.Explain(t.Context(), authz.Attributes{}); !errors.Is(err, authz.ErrNoUser) {
		t.Errorf("without a user: %v", err)
	}
}

func TestWhoCan(t *testing.T) {
	z := rbac.New(policy().Sources())
	masters := group("system:masters")
	got, err := z.WhoCan(t.Context(), ask(nil, "create", "", "configmaps", "dev", ""))
	want := []rbacv1.Subject{masters, group("ops"), user("root"), account("dev", "builder"), user("ann")}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if missing := (*rbac.NotFoundError)(nil); !errors.As(err, &missing) {
		t.Errorf("error %v, want the missing roles", err)
	}
	got, _ = z.WhoCan(t.Context(), ask(nil, "list", "", "pods", "", ""))
	if want := []rbacv1.Subject{masters, group("ops"), user("root"), account("ci", "robot")}; !reflect.DeepEqual(got, want) {
		t.Errorf("cluster-wide: got %v, want %v", got, want)
	}
}

func TestRoleIsCompiledAgainWhenItChanges(t *testing.T) {
	for _, n := range []int{0, 6, 7, 100} {
		t.Run(fmt.Sprint(n+1, " rules"), func(t *testing.T) {
			testRoleChanges(t, slices.Repeat([]rbacv1.PolicyRule{on(list("get"), list("x"), list("y"))}, n))
		})
	}
}

func testRoleChanges(t *testing.T, others []rbacv1.PolicyRule) {
	roles := &mutable{current: clusterRole("r", append(others, on(list("get"), list(""), list("pods")))...)}
	p := rbac.Policy{ClusterRoleBindings: []*rbacv1.ClusterRoleBinding{bindCluster("b", "r", user("ann"))}}
	in := p.Sources()
	in.ClusterRoles = roles
	z := rbac.New(in)
	verdict := func(verb string) authz.Verdict {
		d, err := z.Authorize(t.Context(), ask(who("ann"), verb, "", "pods", "", ""))
		if err != nil {
			t.Fatal(err)
		}
		return d.Verdict
	}
	if verdict("get") != authz.Allow || verdict("list") != authz.NoOpinion {
		t.Fatal("the first role does not count")
	}
	roles.current = clusterRole("r", append(others, on(list("list"), list(""), list("pods")))...)
	if verdict("get") != authz.NoOpinion || verdict("list") != authz.Allow {
		t.Error("the changed role does not count")
	}
	roles.current = nil
	if verdict("list") != authz.NoOpinion {
		t.Error("the deleted role counts")
	}
}

type mutable struct{ current *rbacv1.ClusterRole }

func (m *mutable) Get(_, _ string) (*rbacv1.ClusterRole, bool) { return m.current, m.current != nil }

func TestAggregate(t *testing.T) {
	labelled := func(r *rbacv1.ClusterRole, key, value string) *rbacv1.ClusterRole {
		r.Labels = map[string]string{key: value}
		return r
	}
	pods, jobs := on(list("get"), list(""), list("pods")), on(list("get"), list("batch"), list("jobs"))
	all := labelled(&rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: "all"},
		AggregationRule: &rbacv1.AggregationRule{ClusterRoleSelectors: []metav1.LabelSelector{
			{MatchLabels: map[string]string{"to": "y"}}, {MatchLabels: map[string]string{"to": "x"}},
		}},
	}, "to", "x")
	roles := []*rbacv1.ClusterRole{
		labelled(clusterRole("z", jobs), "to", "x"), labelled(clusterRole("a", pods, jobs), "to", "x"),
		labelled(clusterRole("y", jobs), "to", "y"), clusterRole("other", on(list("*"), list("*"), list("*"))), all,
	}
	got, err := rbac.Aggregate(all, roles)
	if want := []rbacv1.PolicyRule{jobs, pods}; err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, %v; want %v", got, err, want)
	}
	if got, err := rbac.Aggregate(roles[0], roles); err != nil || !reflect.DeepEqual(got, roles[0].Rules) {
		t.Errorf("a role that gathers nothing has %v, %v", got, err)
	}
	all.AggregationRule.ClusterRoleSelectors[0] = metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "to", Operator: "?"}}}
	if _, err := rbac.Aggregate(all, roles); err == nil {
		t.Error("a malformed selector is no error")
	}
}
