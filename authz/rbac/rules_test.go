package rbac_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/authn"
	"github.com/keelson-dev/keelson/authz"
	"github.com/keelson-dev/keelson/authz/rbac"
)

func labelled(name, label string, rules ...rbacv1.PolicyRule) *rbacv1.ClusterRole {
	r := clusterRole(name, rules...)
	r.Labels = map[string]string{"for": label}
	return r
}

// Rules come in the order of selectors, and below these of names, each once: two are the same only if all they say is.
func TestAggregateOrder(t *testing.T) {
	base := rbacv1.PolicyRule{Verbs: list("get"), APIGroups: list("a"), Resources: list("r"), ResourceNames: list("n"), NonResourceURLs: list("/u")}
	var variants []rbacv1.PolicyRule
	for _, change := range []func(*rbacv1.PolicyRule){
		func(*rbacv1.PolicyRule) {},
		func(r *rbacv1.PolicyRule) { r.Verbs = list("put") },
		func(r *rbacv1.PolicyRule) { r.APIGroups = list("b") },
		func(r *rbacv1.PolicyRule) { r.Resources = list("s") },
		func(r *rbacv1.PolicyRule) { r.ResourceNames = list("m") },
		func(r *rbacv1.PolicyRule) { r.NonResourceURLs = list("/v") },
	} {
		r := base
		change(&r)
		variants = append(variants, r)
	}
	first, last := on(list("list"), list("x"), list("first")), on(list("list"), list("x"), list("last"))
	own := on(list("watch"), list("x"), list("own"))
	whole := labelled("whole", "view", own)
	whole.AggregationRule = &rbacv1.AggregationRule{ClusterRoleSelectors: []metav1.LabelSelector{
		{MatchLabels: map[string]string{"for": "edit"}}, {MatchLabels: map[string]string{"for": "view"}},
	}}
	all := []*rbacv1.ClusterRole{labelled("z", "view", append([]rbacv1.PolicyRule{last}, variants...)...), whole, labelled("c", "other", own),
		labelled("b", "view", base, base), labelled("y", "edit", first)}
	got, err := rbac.Aggregate(whole, all)
	want := append([]rbacv1.PolicyRule{first, base, last}, variants[1:]...)
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, %v, want %v", got, err, want)
	}
	if all[0].Name != "z" || all[4].Name != "y" {
		t.Error("the caller's list was sorted")
	}
}

func TestUncovered(t *testing.T) {
	named := on(list("get"), list("a"), list("r"), "n")
	for name, c := range map[string]struct {
		held, wanted rbacv1.PolicyRule
		covered      bool
	}{
		"the same":                       {named, named, true},
		"another verb":                   {on(list("put"), list("a"), list("r")), on(list("get"), list("a"), list("r")), false},
		"another group":                  {on(list("get"), list("b"), list("r")), on(list("get"), list("a"), list("r")), false},
		"another resource":               {on(list("get"), list("a"), list("s")), on(list("get"), list("a"), list("r")), false},
		"any name":                       {on(list("get"), list("a"), list("r")), named, true},
		"another name":                   {on(list("get"), list("a"), list("r"), "m"), named, false},
		"one name of all":                {named, on(list("get"), list("a"), list("r")), false},
		"every subresource of the name":  {on(list("get"), list("a"), list("*/scale")), on(list("get"), list("a"), list("r/scale")), true},
		"every other subresource":        {on(list("get"), list("a"), list("*/status")), on(list("get"), list("a"), list("r/scale")), false},
		"not the resource itself":        {on(list("get"), list("a"), list("*/")), on(list("get"), list("a"), list("r")), false},
		"a path":                         {rbacv1.PolicyRule{Verbs: list("get"), NonResourceURLs: list("/a*")}, rbacv1.PolicyRule{Verbs: list("get"), NonResourceURLs: list("/ab")}, true},
		"a path is no resource":          {on(list("get"), list("*"), list("*")), rbacv1.PolicyRule{Verbs: list("get"), NonResourceURLs: list("/ab")}, false},
		"a resource is no path":          {rbacv1.PolicyRule{Verbs: list("get"), NonResourceURLs: list("*")}, on(list("get"), list("a"), list("r")), false},
		"subresources of any are not it": {on(list("get"), list("a"), list("*/scale")), on(list("get"), list("a"), list("scale")), false},
	} {
		if got := rbac.Uncovered([]rbacv1.PolicyRule{c.held}, []rbacv1.PolicyRule{c.wanted}); (len(got) == 0) != c.covered {
			t.Errorf("%s: uncovered are %v", name, got)
		}
	}
}

// Rules of their own allow everybody what they say.
func TestRules(t *testing.T) {
	rules := rbac.Rules{
		on(list("get"), list(""), list("pods", "*/log")), on(list("put"), list("apps"), list("deployments"), "web"),
		{Verbs: list("get"), NonResourceURLs: list("/healthz")}, on(list("list"), list(""), list("*")), on(list("patch"), list(""), list("")),
	}
	for name, c := range map[string]struct {
		ask  authz.Attributes
		want authz.Verdict
	}{
		"a resource":               {ask(who("x"), "get", "", "pods", "n", "p"), authz.Allow},
		"another":                  {ask(who("x"), "get", "", "secrets", "n", "p"), authz.NoOpinion},
		"another verb":             {ask(who("x"), "delete", "", "pods", "n", "p"), authz.NoOpinion},
		"of a rule for none":       {ask(who("x"), "patch", "", "pods", "n", "p"), authz.NoOpinion},
		"another group":            {ask(who("x"), "get", "apps", "pods", "n", "p"), authz.NoOpinion},
		"any resource":             {ask(who("x"), "list", "", "secrets", "n", ""), authz.Allow},
		"a subresource of any":     {ask(who("x"), "get", "", "pods/log", "n", "p"), authz.Allow},
		"another subresource":      {ask(who("x"), "get", "", "pods/exec", "n", "p"), authz.NoOpinion},
		"a name":                   {ask(who("x"), "put", "apps", "deployments", "n", "web"), authz.Allow},
		"another name":             {ask(who("x"), "put", "apps", "deployments", "n", "db"), authz.NoOpinion},
		"a path":                   {path(who("x"), "get", "/healthz"), authz.Allow},
		"another path":             {path(who("x"), "get", "/metrics"), authz.NoOpinion},
		"a path with another verb": {path(who("x"), "put", "/healthz"), authz.NoOpinion},
	} {
		if d, err := rules.Authorize(t.Context(), c.ask); err != nil || d.Verdict != c.want {
			t.Errorf("%s: got %v, %v", name, d, err)
		}
	}
}

// Of several rules, bindings and subjects the first one is named as the reason, however it is found.
func TestFirstReason(t *testing.T) {
	pods := ask(who("ann", "dev", "ops"), "get", "", "pods", "n", "p")
	get := on(list("get"), list(""), list("pods"))
	every := on(list("get"), list(""), list("*"))
	for name, c := range map[string]struct {
		policy rbac.Policy
		want   string
	}{
		"binding by name, of several subjects": {rbac.Policy{
			ClusterRoles: []*rbacv1.ClusterRole{clusterRole("r", get)},
			ClusterRoleBindings: []*rbacv1.ClusterRoleBinding{bindCluster("c", "r", user("ann")), bindCluster("b", "r", group("ops")),
				bindCluster("a", "r", group("dev"), user("ann"))},
		}, `RBAC: allowed by ClusterRoleBinding "a" of ClusterRole "r" to Group "dev"`},
		"last of three lists": {rbac.Policy{
			ClusterRoles:        []*rbacv1.ClusterRole{clusterRole("r", get)},
			ClusterRoleBindings: []*rbacv1.ClusterRoleBinding{bindCluster("c", "r", user("ann")), bindCluster("b", "r", group("dev")), bindCluster("a", "r", group("ops"))},
		}, `RBAC: allowed by ClusterRoleBinding "a" of ClusterRole "r" to Group "ops"`},
		"second of two lists": {rbac.Policy{
			ClusterRoles:        []*rbacv1.ClusterRole{clusterRole("r", get)},
			ClusterRoleBindings: []*rbacv1.ClusterRoleBinding{bindCluster("b", "r", user("ann")), bindCluster("a", "r", group("dev"))},
		}, `RBAC: allowed by ClusterRoleBinding "a" of ClusterRole "r" to Group "dev"`},
		"a group of the user's name": {rbac.Policy{
			ClusterRoles:        []*rbacv1.ClusterRole{clusterRole("r", get)},
			ClusterRoleBindings: []*rbacv1.ClusterRoleBinding{bindCluster("a", "r", group("ann"), user("ann"))},
		}, `RBAC: allowed by ClusterRoleBinding "a" of ClusterRole "r" to User "ann"`},
		"a user of the group's name": {rbac.Policy{
			ClusterRoles:        []*rbacv1.ClusterRole{clusterRole("r", get)},
			ClusterRoleBindings: []*rbacv1.ClusterRoleBinding{bindCluster("a", "r", user("dev"), group("others"), group("dev"))},
		}, `RBAC: allowed by ClusterRoleBinding "a" of ClusterRole "r" to Group "dev"`},
		"the cluster's before the namespace's": {rbac.Policy{
			ClusterRoles:        []*rbacv1.ClusterRole{clusterRole("r", every)},
			ClusterRoleBindings: []*rbacv1.ClusterRoleBinding{bindCluster("z", "r", user("ann"))},
			RoleBindings:        []*rbacv1.RoleBinding{bind("n", "a", "ClusterRole", "r", user("ann"))},
		}, `RBAC: allowed by ClusterRoleBinding "z" of ClusterRole "r" to User "ann"`},
	} {
		if d, err := rbac.New(c.policy.Sources()).Authorize(t.Context(), pods); err != nil || d.Verdict != authz.Allow || d.Why(pods) != c.want {
			t.Errorf("%s: got %v, %v", name, d, err)
		}
	}
	// Explain names the first rule.
	for name, rules := range map[string][]rbacv1.PolicyRule{
		"as the resource": {on(list("get"), list(""), list("pods"), "p"), every}, "as any": {on(list("get"), list(""), list("*"), "p"), get},
		"after others": {on(list("put"), list(""), list("pods")), on(list("get"), list(""), list("*"), "p"), get, every},
	} {
		p := rbac.Policy{
			ClusterRoles:        []*rbacv1.ClusterRole{clusterRole("r", rules...)},
			ClusterRoleBindings: []*rbacv1.ClusterRoleBinding{bindCluster("a", "r", user("ann"))},
		}
		for _, z := range []*rbac.Authorizer{rbac.New(p.Sources()), rbac.New(padded(p).Sources())} {
			why, err := z.Explain(t.Context(), pods)
			if err != nil || len(why.Considered) != 1 || why.Considered[0].Rule == nil || !slices.Equal(why.Considered[0].Rule.ResourceNames, list("p")) {
				t.Errorf("%s: got %s, %v", name, why, err)
			}
		}
	}
}

// A user of many groups gets the bindings of all, each once and in the order of their names.
func TestManyGroups(t *testing.T) {
	var p rbac.Policy
	var groups, want []string
	for i := range 20 {
		name := fmt.Sprintf("b%02d", (i*7)%20)
		p.ClusterRoleBindings = append(p.ClusterRoleBindings, bindCluster(name, "r", group(fmt.Sprint("g", i)), group(fmt.Sprint("g", (i+1)%20))))
		p.RoleBindings = append(p.RoleBindings, bind("n", name, "ClusterRole", "r", group(fmt.Sprint("g", i))), bind("m", name, "ClusterRole", "r", group(fmt.Sprint("g", i))))
		groups = append(groups, fmt.Sprint("g", i))
	}
	for _, ns := range []string{"", "n"} {
		for i := range 20 {
			want = append(want, fmt.Sprintf("%s/b%02d", ns, i))
		}
	}
	p.ClusterRoles = []*rbacv1.ClusterRole{clusterRole("r")}
	why, err := rbac.New(p.Sources()).Explain(t.Context(), ask(who("ann", groups...), "get", "", "pods", "n", "p"))
	var got []string
	for _, c := range why.Considered {
		got = append(got, c.Namespace+"/"+c.Name)
	}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("got %v, %v; want %v", got, err, want)
	}
}

// A decision allocates nothing, unless it has to say which roles are missing.
func TestAllocations(t *testing.T) {
	p := policy()
	for i := range 10 { // a role of many rules
		p.ClusterRoles[1].Rules = append(p.ClusterRoles[1].Rules, on(list("get"), list(fmt.Sprint("group", i)), list("things")))
	}
	z := rbac.New(p.Sources())
	var unbound []string
	for i := range 30 {
		unbound = append(unbound, fmt.Sprint("unbound", i))
	}
	for name, c := range map[string]struct {
		ask  authz.Attributes
		want authz.Verdict
	}{
		"many groups":    {ask(who("eve", append(unbound, "ops")...), "delete", "apps", "deployments", "x", "y"), authz.Allow},
		"by group":       {ask(who("eve", "a", "b", "c", "d", "e", "f", "ops"), "delete", "apps", "deployments", "x", "y"), authz.Allow},
		"in a namespace": {ask(who("ann", "system:authenticated"), "get", "", "pods", "dev", "p"), authz.Allow},
		"many rules":     {ask(who("ann", "system:authenticated"), "get", "group9", "things", "dev", "p"), authz.Allow},
		"a path":         {path(who("eve", "system:authenticated"), "get", "/healthz/etcd"), authz.Allow},
		"not allowed":    {ask(who("ann", "system:authenticated"), "put", "", "pods", "dev", "p"), authz.NoOpinion},
	} {
		if n := testing.AllocsPerRun(100, func() {
			if d, err := z.Authorize(t.Context(), c.ask); err != nil || d.Verdict != c.want {
				t.Error(name, d, err)
			}
		}); n > 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}

// A policy's objects are read by namespace or all, in the order of their names, whatever order they were given in.
func TestPolicyList(t *testing.T) {
	given := []*rbacv1.RoleBinding{bind("b", "y", "Role", "r"), bind("a", "z", "Role", "r"), bind("b", "x", "Role", "r")}
	s := rbac.Policy{RoleBindings: given}.Sources()
	for namespace, want := range map[string]string{"": "z x y", "a": "z", "b": "x y", "c": ""} {
		var names []string
		for _, b := range s.RoleBindings.List(namespace) {
			names = append(names, b.Name)
		}
		if got := strings.Join(names, " "); got != want {
			t.Errorf("in %q are %q, want %q", namespace, got, want)
		}
	}
	if given[0].Name != "y" {
		t.Error("the caller's list was sorted")
	}
}

// A role that aggregates holds what others are given later, too: who holds everything may make one, also where nobody may escalate.
func TestAggregatingRoleTakesFullAuthority(t *testing.T) {
	deny := authz.Func(func(context.Context, authz.Attributes) (authz.Decision, error) { return authz.Decision{}, nil })
	e := rbac.NewEscalation(rbac.New(policy().Sources()), deny)
	rules := []rbacv1.PolicyRule{on(list("get"), list(""), list("pods"))}
	for name, want := range map[string]error{"root": nil, "system:serviceaccount:ci:robot": rbac.ErrAggregation} {
		if err := e.CheckRole(authn.NewContext(t.Context(), who(name)), "", "x", rules, true); !errors.Is(err, want) {
			t.Errorf("%s: got %v, want %v", name, err, want)
		}
	}
}

// A binding that names a subject twice applies once.
func TestSubjectTwice(t *testing.T) {
	z := rbac.New(rbac.Policy{
		ClusterRoles:        []*rbacv1.ClusterRole{clusterRole("r", on(list("get"), list(""), list("pods")))},
		ClusterRoleBindings: []*rbacv1.ClusterRoleBinding{bindCluster("a", "r", user("ann"), user("bob"), user("ann"))},
	}.Sources())
	if why, err := z.Explain(t.Context(), ask(who("ann"), "get", "", "pods", "n", "p")); err != nil || len(why.Considered) != 1 {
		t.Errorf("got %v, %v", why, err)
	}
}
