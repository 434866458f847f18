package rbac_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/authn"
	authzrbac "github.com/keelson-dev/keelson/authz/rbac"
	"github.com/keelson-dev/keelson/authz/rbac/bootstrap"
	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/registry/rbac"
)

func kind(t *testing.T, e rbac.Escalation, plural string) registry.Kind {
	t.Helper()
	for _, k := range rbac.Kinds(e) {
		if k.Plural == plural {
			return k
		}
	}
	t.Fatalf("no kind %s", plural)
	return registry.Kind{}
}

func TestKinds(t *testing.T) {
	for plural, want := range map[string]struct {
		kind       string
		namespaced bool
	}{
		"roles": {"Role", true}, "rolebindings": {"RoleBinding", true},
		"clusterroles": {"ClusterRole", false}, "clusterrolebindings": {"ClusterRoleBinding", false},
	} {
		k := kind(t, nil, plural)
		if k.Names.Kind != want.kind || k.Namespaced != want.namespaced || k.Prefix != plural || !k.Rules.CreateOnUpdate || k.Rules.ConditionalUpdate {
			t.Errorf("%s is %+v", plural, k)
		}
		if k.Rules.Guard != nil {
			t.Errorf("%s has no guard", plural)
		}
		if msgs := k.Rules.ValidateName("system:controller:x", false); len(msgs) != 0 {
			t.Errorf("%s: name refused: %v", plural, msgs)
		}
		if msgs := k.Rules.ValidateName("a/b%", false); len(msgs) != 2 {
			t.Errorf("%s: name passed: %v", plural, msgs)
		}
	}
}

func TestDefaultPolicyIsValid(t *testing.T) {
	p := bootstrap.Policy()
	check := func(plural string, obj registry.Object) {
		k := kind(t, nil, plural)
		if errs := k.Rules.Validate(obj); len(errs) > 0 {
			t.Errorf("%s %s: %v", plural, obj.GetName(), errs.ToAggregate())
		}
		if k.Rules.Default == nil {
			return
		}
		before := obj.DeepCopyObject()
		if k.Rules.Default(obj); !equal(obj, before) {
			t.Errorf("%s %s is changed by defaults", plural, obj.GetName())
		}
	}
	for _, obj := range p.ClusterRoles {
		check("clusterroles", obj)
	}
	for _, obj := range p.ClusterRoleBindings {
		check("clusterrolebindings", obj)
	}
	for _, obj := range p.Roles {
		check("roles", obj)
	}
	for _, obj := range p.RoleBindings {
		check("rolebindings", obj)
	}
}

const (
	badLabel     = `a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')`
	badSubdomain = `a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')`
)

// The messages come from upstream v1.37.1's own code, run on the same objects.
func TestValidate(t *testing.T) {
	rules := []rbacv1.PolicyRule{
		{},
		{Verbs: []string{"get"}, NonResourceURLs: []string{"/x"}, Resources: []string{"a"}},
		{NonResourceURLs: []string{"/x"}},
		{Verbs: []string{"x"}, APIGroups: []string{""}},
	}
	subjects := []rbacv1.Subject{{}, {Kind: "User"}, {Kind: "Group", Name: "x", APIGroup: "y"}, {Kind: "ServiceAccount", Name: "A_b", APIGroup: "x"}, {Kind: "ServiceAccount"}, {Kind: "Foo", Name: "x"}}
	subjectErrors := []string{
		`subjects[0].kind: Unsupported value: "": supported values: "ServiceAccount", "User", "Group"`,
		`subjects[1].apiGroup: Unsupported value: "": supported values: "rbac.authorization.k8s.io"`,
		`subjects[2].apiGroup: Unsupported value: "y": supported values: "rbac.authorization.k8s.io"`,
		`subjects[3].name: Invalid value: "A_b": ` + badSubdomain,
		`subjects[3].apiGroup: Unsupported value: "x": supported values: ""`,
	}
	for name, c := range map[string]struct {
		plural string
		obj    registry.Object
		want   []string
	}{
		"role": {"roles", &rbacv1.Role{Rules: rules}, []string{
			`rules[0].apiGroups: Required value: resource rules must supply at least one api group`,
			`rules[0].resources: Required value: resource rules must supply at least one resource`,
			`rules[1].nonResourceURLs: Invalid value: ["/x"]: namespaced rules cannot apply to non-resource URLs`,
			`rules[1].nonResourceURLs: Invalid value: ["/x"]: rules cannot apply to both regular resources and non-resource URLs`,
			`rules[2].nonResourceURLs: Invalid value: ["/x"]: namespaced rules cannot apply to non-resource URLs`,
			`rules[3].resources: Required value: resource rules must supply at least one resource`,
			`rules[0].verbs: Required value`,
			`rules[2].verbs: Required value`,
		}},
		"cluster role": {"clusterroles", &rbacv1.ClusterRole{Rules: rules[:2], AggregationRule: &rbacv1.AggregationRule{}}, []string{
			`rules[0].apiGroups: Required value: resource rules must supply at least one api group`,
			`rules[0].resources: Required value: resource rules must supply at least one resource`,
			`rules[1].nonResourceURLs: Invalid value: ["/x"]: rules cannot apply to both regular resources and non-resource URLs`,
			`aggregationRule.clusterRoleSelectors: Required value: at least one clusterRoleSelector required if aggregationRule is non-nil`,
			`rules[0].verbs: Required value`,
		}},
		"selectors": {"clusterroles", &rbacv1.ClusterRole{AggregationRule: &rbacv1.AggregationRule{ClusterRoleSelectors: []metav1.LabelSelector{
			{MatchLabels: map[string]string{"a": "c d"}}, {MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "x", Operator: "?"}}},
		}}}, []string{
			`aggregationRule.clusterRoleSelectors[0].matchLabels: Invalid value: "c d": ` + badLabel,
			`aggregationRule.clusterRoleSelectors[0]: Invalid value: null: invalid label selector.`,
			`aggregationRule.clusterRoleSelectors[1].matchExpressions[0].operator: Invalid value: "?": not a valid selector operator`,
			`aggregationRule.clusterRoleSelectors[1]: Invalid value: null: invalid label selector.`,
		}},
		"role binding": {"rolebindings", &rbacv1.RoleBinding{Subjects: subjects}, append(append([]string{
			`roleRef.apiGroup: Unsupported value: "": supported values: "rbac.authorization.k8s.io"`,
			`roleRef.kind: Unsupported value: "": supported values: "Role", "ClusterRole"`,
		}, subjectErrors...),
			`subjects[5].kind: Unsupported value: "Foo": supported values: "ServiceAccount", "User", "Group"`,
			`subjects[0].name: Required value`, `subjects[1].name: Required value`, `subjects[4].name: Required value`, `roleRef.name: Required value`,
		)},
		"cluster role binding": {"clusterrolebindings", &rbacv1.ClusterRoleBinding{Subjects: subjects, RoleRef: rbacv1.RoleRef{APIGroup: "x", Kind: "Role", Name: "a/b"}}, append(append([]string{
			`roleRef.apiGroup: Unsupported value: "x": supported values: "rbac.authorization.k8s.io"`,
			`roleRef.kind: Unsupported value: "Role": supported values: "ClusterRole"`,
			`roleRef.name: Invalid value: "a/b": may not contain '/'`,
		}, subjectErrors...),
			`subjects[3].namespace: Required value`,
			`subjects[4].namespace: Required value`,
			`subjects[5].kind: Unsupported value: "Foo": supported values: "ServiceAccount", "User", "Group"`,
			`subjects[0].name: Required value`, `subjects[1].name: Required value`, `subjects[4].name: Required value`,
		)},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, err := range kind(t, nil, c.plural).Rules.Validate(c.obj) {
				got = append(got, err.Error())
			}
			if strings.Join(got, "\n") != strings.Join(c.want, "\n") {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(c.want, "\n"))
			}
		})
	}
}

func TestRoleRefIsImmutable(t *testing.T) {
	old := &rbacv1.RoleBinding{RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "a"}}
	changed := old.DeepCopy()
	changed.RoleRef.Name = "b"
	want := `roleRef: Invalid value: {"APIGroup":"rbac.authorization.k8s.io","Kind":"ClusterRole","Name":"b"}: field is immutable`
	if errs := kind(t, nil, "rolebindings").Rules.ValidateUpdate(changed, old); len(errs) != 1 || errs[0].Error() != want {
		t.Errorf("got %v, want %s", errs, want)
	}
	clusterOld := &rbacv1.ClusterRoleBinding{RoleRef: old.RoleRef}
	if errs := kind(t, nil, "clusterrolebindings").Rules.ValidateUpdate(&rbacv1.ClusterRoleBinding{RoleRef: changed.RoleRef}, clusterOld); len(errs) != 1 || errs[0].Error() != want {
		t.Errorf("got %v, want %s", errs, want)
	}
	if errs := kind(t, nil, "clusterrolebindings").Rules.ValidateUpdate(clusterOld.DeepCopy(), clusterOld); len(errs) != 0 {
		t.Errorf("nothing changed: %v", errs)
	}
}

func TestOldLabelValuesStay(t *testing.T) {
	old := &rbacv1.ClusterRole{AggregationRule: &rbacv1.AggregationRule{ClusterRoleSelectors: []metav1.LabelSelector{
		{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "In", Values: []string{"c d"}}}},
	}}}
	k := kind(t, nil, "clusterroles")
	fresh, kept := k.Rules.Validate(old), k.Rules.ValidateUpdate(old.DeepCopy(), old)
	if len(fresh) != 2 || len(kept) != 1 {
		t.Errorf("a new one has %v, an old one %v", fresh, kept)
	}
}

func TestDefaults(t *testing.T) {
	b := &rbacv1.RoleBinding{Subjects: []rbacv1.Subject{{Kind: "User"}, {Kind: "Group"}, {Kind: "ServiceAccount"}, {Kind: "Odd"}, {Kind: "User", APIGroup: "x"}}}
	kind(t, nil, "rolebindings").Rules.Default(b)
	var got []string
	for _, s := range b.Subjects {
		got = append(got, s.APIGroup)
	}
	if g := rbacv1.GroupName; b.RoleRef.APIGroup != g || strings.Join(got, " ") != g+" "+g+"   x" {
		t.Errorf("role ref %q, subjects %q", b.RoleRef.APIGroup, got)
	}
}

func TestGuard(t *testing.T) {
	p := bootstrap.Policy()
	bind := func(name string, user string) *rbacv1.ClusterRoleBinding {
		return &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: user}, RoleRef: rbacv1.RoleRef{Kind: "ClusterRole", Name: name},
			Subjects: []rbacv1.Subject{{Kind: "User", Name: user}},
		}
	}
	p.ClusterRoleBindings = append(p.ClusterRoleBindings, bind("view", "viewer"), bind("cluster-admin", "root"))
	z := authzrbac.New(p.Sources())
	e := authzrbac.NewEscalation(z, z)
	viewer := authn.NewContext(t.Context(), &authn.Identity{Name: "viewer", Groups: []string{"dev"}})
	root := authn.NewContext(t.Context(), &authn.Identity{Name: "root"})
	pods := []rbacv1.PolicyRule{{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"pods"}}}
	secrets := []rbacv1.PolicyRule{{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"secrets"}}}
	const attempt = "user \"viewer\" (groups=[\"dev\"]) is attempting to grant RBAC permissions not currently held:\n"
	meta := metav1.ObjectMeta{Namespace: "dev", Name: "x"}
	ref := func(name string) rbacv1.RoleRef {
		return rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name}
	}
	gone := &rbacv1.Role{ObjectMeta: meta, Rules: secrets}
	orphaned := gone.DeepCopy()
	gone.Finalizers, gone.OwnerReferences = []string{"orphan"}, []metav1.OwnerReference{{Name: "o"}}
	gathering := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "x"}, AggregationRule: &rbacv1.AggregationRule{ClusterRoleSelectors: []metav1.LabelSelector{{}}}}
	for name, c := range map[string]struct {
		ctx      context.Context
		plural   string
		obj, old registry.Object
		err      error
		message  string
	}{
		"role with what one has": {viewer, "roles", &rbacv1.Role{ObjectMeta: meta, Rules: pods}, nil, nil, ""},
		"role with more":         {viewer, "roles", &rbacv1.Role{ObjectMeta: meta, Rules: secrets}, nil, registry.ErrForbidden, attempt + `{APIGroups:[""], Resources:["secrets"], Verbs:["get"]}`},
		"update to more":         {viewer, "roles", &rbacv1.Role{ObjectMeta: meta, Rules: secrets}, &rbacv1.Role{ObjectMeta: meta, Rules: pods}, registry.ErrForbidden, attempt + `{APIGroups:[""], Resources:["secrets"], Verbs:["get"]}`},
		"garbage collection":     {viewer, "roles", orphaned, gone, nil, ""},
		"by root":                {root, "roles", &rbacv1.Role{ObjectMeta: meta, Rules: secrets}, nil, nil, ""},
		"cluster role with more": {viewer, "clusterroles", &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "x"}, Rules: secrets}, nil, registry.ErrForbidden, attempt + `{APIGroups:[""], Resources:["secrets"], Verbs:["get"]}`},
		"gathering":              {viewer, "clusterroles", gathering, nil, registry.ErrForbidden, "must have cluster-admin privileges to use the aggregationRule"},
		"no longer gathering":    {viewer, "clusterroles", &rbacv1.ClusterRole{ObjectMeta: gathering.ObjectMeta}, gathering, registry.ErrForbidden, "must have cluster-admin privileges to use the aggregationRule"},
		"gathering, by root":     {root, "clusterroles", gathering, nil, nil, ""},
		"binding what one has":   {viewer, "rolebindings", &rbacv1.RoleBinding{ObjectMeta: meta, RoleRef: ref("view")}, nil, nil, ""},
		"binding more": {viewer, "rolebindings", &rbacv1.RoleBinding{ObjectMeta: meta, RoleRef: ref("system:node-proxier")}, nil, registry.ErrForbidden, attempt + `{APIGroups:[""], Resources:["events"], Verbs:["create" "patch" "update"]}
{APIGroups:[""], Resources:["nodes"], Verbs:["get" "list" "watch"]}
{APIGroups:["events.k8s.io"], Resources:["events"], Verbs:["create" "patch" "update"]}
{APIGroups:["networking.k8s.io"], Resources:["servicecidrs"], Verbs:["list" "watch"]}`},
		"binding a missing role":      {viewer, "rolebindings", &rbacv1.RoleBinding{ObjectMeta: meta, RoleRef: ref("gone")}, nil, registry.ErrNotFound, ""},
		"binding a missing one, root": {root, "rolebindings", &rbacv1.RoleBinding{ObjectMeta: meta, RoleRef: ref("gone")}, nil, nil, ""},
		"cluster binding":             {viewer, "clusterrolebindings", &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "x"}, RoleRef: ref("view")}, nil, nil, ""},
		"cluster binding of more":     {viewer, "clusterrolebindings", &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "x"}, RoleRef: ref("cluster-admin")}, nil, registry.ErrForbidden, attempt + "{APIGroups:[\"*\"], Resources:[\"*\"], Verbs:[\"*\"]}\n{NonResourceURLs:[\"*\"], Verbs:[\"*\"]}"},
		"nobody writes cluster role":  {t.Context(), "clusterroles", &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "x"}, Rules: pods}, nil, registry.ErrForbidden, "no user on context"},
	} {
		t.Run(name, func(t *testing.T) {
			err := kind(t, e, c.plural).Rules.Guard(c.ctx, c.obj, c.old)
			if !errors.Is(err, c.err) || c.err == nil && err != nil {
				t.Fatalf("got %v, want %v", err, c.err)
			}
			refusal := (*registry.Error)(nil)
			if errors.As(err, &refusal); refusal == nil {
				return
			}
			if errors.Is(err, registry.ErrNotFound) && (refusal.Resource.Resource != "clusterroles" || refusal.Name != "gone") {
				t.Errorf("missing %v %q", refusal.Resource, refusal.Name)
			}
			if errors.Is(err, registry.ErrForbidden) && (refusal.Resource.Resource != c.plural || refusal.Name != "x") {
				t.Errorf("forbidden %v %q", refusal.Resource, refusal.Name)
			}
			if c.message != "" && refusal.Message != c.message {
				t.Errorf("got %q, want %q", refusal.Message, c.message)
			}
		})
	}
}

func equal(a, b any) bool { return reflect.DeepEqual(a, b) }

// TestBindingCells: subjects are shown by kind, each in a column of its own.
func TestBindingCells(t *testing.T) {
	now := time.Now()
	meta := metav1.ObjectMeta{Name: "b", Namespace: "dev", CreationTimestamp: metav1.NewTime(now.Add(-time.Hour))}
	ref := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "view"}
	subjects := []rbacv1.Subject{
		{Kind: "User", Name: "u"}, {Kind: "Group", Name: "g"}, {Kind: "ServiceAccount", Namespace: "n", Name: "s"}, {Kind: "Odd", Name: "o"},
		{Kind: "User", Name: "v"}, {Kind: "Group", Name: "h"}, {Kind: "ServiceAccount", Namespace: "n", Name: "t"},
	}
	want := []any{"b", "ClusterRole/view", "60m", "u, v", "g, h", "n/s, n/t"}
	for plural, tt := range map[string]struct {
		obj  registry.Object
		kind string
	}{
		"rolebindings":        {&rbacv1.RoleBinding{ObjectMeta: meta, RoleRef: ref, Subjects: subjects}, "roleBinding"},
		"clusterrolebindings": {&rbacv1.ClusterRoleBinding{ObjectMeta: meta, RoleRef: ref, Subjects: subjects}, "clusterRoleBinding"},
	} {
		columns := kind(t, nil, plural).Columns
		if got := columns.Cells(tt.obj, now); !equal(got, want) {
			t.Errorf("%s: %q, want %q", plural, got, want)
		}
		var shown []string
		for _, d := range columns.Definitions {
			shown = append(shown, fmt.Sprintf("%s %d %s", d.Name, d.Priority, d.Description))
		}
		if got := strings.Join(shown[1:2], "") + ", " + strings.Join(shown[3:], ", "); got != "Role 0 "+
			"roleRef can "+map[string]string{"roleBinding": "reference a Role in the current namespace or a ClusterRole", "clusterRoleBinding": "only reference a ClusterRole"}[tt.kind]+
			" in the global namespace. If the RoleRef cannot be resolved, the Authorizer must return an error."+
			fmt.Sprintf(", Users 1 Users in the %[1]s, Groups 1 Groups in the %[1]s, ServiceAccounts 1 ServiceAccounts in the %[1]s", tt.kind) {
			t.Errorf("%s: columns %s", plural, got)
		}
	}
}

// TestUpdates: an update refuses what a create refuses, except that the label selectors of a cluster role may
// stay as invalid as the stored ones.
func TestUpdates(t *testing.T) {
	selecting := func(value string) *rbacv1.ClusterRole {
		return &rbacv1.ClusterRole{AggregationRule: &rbacv1.AggregationRule{ClusterRoleSelectors: []metav1.LabelSelector{
			{MatchLabels: map[string]string{"a": "b"}}, {MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "In", Values: []string{value}}}},
		}}}
	}
	verbless := []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"pods"}}}
	both := func(with func(*rbacv1.PolicyRule)) *rbacv1.ClusterRole {
		rule := rbacv1.PolicyRule{Verbs: []string{"get"}, NonResourceURLs: []string{"/x"}}
		with(&rule)
		return &rbacv1.ClusterRole{Rules: []rbacv1.PolicyRule{rule}}
	}
	const ofBoth = `rules[0].nonResourceURLs: Invalid value: ["/x"]: rules cannot apply to both regular resources and non-resource URLs`
	ref := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "a"}
	someone := []rbacv1.Subject{{Kind: "User", APIGroup: rbacv1.GroupName, Name: "u"}}
	nobody := []rbacv1.Subject{{Kind: "User", APIGroup: rbacv1.GroupName}}
	const invalid = `aggregationRule.clusterRoleSelectors[1].matchExpressions[0].values[0]: Invalid value: "c d": ` + badLabel
	const unreadable = `aggregationRule.clusterRoleSelectors[1]: Invalid value: null: invalid label selector.`
	for name, tt := range map[string]struct {
		plural   string
		obj, old registry.Object
		want     []string
	}{
		"role":              {"roles", &rbacv1.Role{Rules: verbless}, &rbacv1.Role{Rules: verbless}, []string{`rules[0].verbs: Required value`}},
		"cluster role":      {"clusterroles", &rbacv1.ClusterRole{Rules: verbless}, &rbacv1.ClusterRole{}, []string{`rules[0].verbs: Required value`}},
		"a label turns bad": {"clusterroles", selecting("c d"), selecting("c"), []string{invalid, unreadable}},
		"from none to bad":  {"clusterroles", selecting("c d"), &rbacv1.ClusterRole{}, []string{invalid, unreadable}},
		"a bad label stays": {"clusterroles", selecting("c d"), selecting("e f"), []string{unreadable}},
		"a bad label is gone": {"clusterroles", selecting("c d"), &rbacv1.ClusterRole{AggregationRule: &rbacv1.AggregationRule{ClusterRoleSelectors: []metav1.LabelSelector{
			{MatchLabels: map[string]string{"a": "b c"}}, {MatchLabels: map[string]string{"a": "b"}},
		}}}, []string{unreadable}},
		"paths":                {"clusterroles", &rbacv1.ClusterRole{Rules: []rbacv1.PolicyRule{{Verbs: []string{"get"}, NonResourceURLs: []string{"/x"}}}}, &rbacv1.ClusterRole{}, nil},
		"a group and a path":   {"clusterroles", both(func(r *rbacv1.PolicyRule) { r.APIGroups = []string{""} }), &rbacv1.ClusterRole{}, []string{ofBoth}},
		"a kind and a path":    {"clusterroles", both(func(r *rbacv1.PolicyRule) { r.APIGroups, r.Resources = []string{""}, []string{"a"} }), &rbacv1.ClusterRole{}, []string{ofBoth}},
		"a name and a path":    {"clusterroles", both(func(r *rbacv1.PolicyRule) { r.Resources, r.ResourceNames = []string{"a"}, []string{"b"} }), &rbacv1.ClusterRole{}, []string{ofBoth}},
		"an account":           {"rolebindings", &rbacv1.RoleBinding{RoleRef: ref, Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Name: "a-"}}}, &rbacv1.RoleBinding{RoleRef: ref}, []string{`subjects[0].name: Invalid value: "a-": ` + badSubdomain}},
		"a label turns good":   {"clusterroles", selecting("c"), selecting("e f"), nil},
		"good labels":          {"clusterroles", selecting("c"), selecting("d"), nil},
		"binding of a user":    {"rolebindings", &rbacv1.RoleBinding{RoleRef: ref, Subjects: someone}, &rbacv1.RoleBinding{RoleRef: ref}, nil},
		"binding of nobody":    {"rolebindings", &rbacv1.RoleBinding{RoleRef: ref, Subjects: nobody}, &rbacv1.RoleBinding{RoleRef: ref}, []string{`subjects[0].name: Required value`}},
		"everywhere of a user": {"clusterrolebindings", &rbacv1.ClusterRoleBinding{RoleRef: ref, Subjects: someone}, &rbacv1.ClusterRoleBinding{RoleRef: ref}, nil},
		"everywhere of nobody": {"clusterrolebindings", &rbacv1.ClusterRoleBinding{RoleRef: ref, Subjects: nobody}, &rbacv1.ClusterRoleBinding{RoleRef: ref}, []string{`subjects[0].name: Required value`}},
	} {
		var got []string
		for _, err := range kind(t, nil, tt.plural).Rules.ValidateUpdate(tt.obj, tt.old) {
			got = append(got, err.Error())
		}
		if !equal(got, tt.want) {
			t.Errorf("%s:\n\t%s\nwant\n\t%s", name, strings.Join(got, "\n\t"), strings.Join(tt.want, "\n\t"))
		}
	}
}

func TestClusterBindingDefaults(t *testing.T) {
	b := &rbacv1.ClusterRoleBinding{RoleRef: rbacv1.RoleRef{Kind: "ClusterRole", Name: "a"}, Subjects: []rbacv1.Subject{{Kind: "User", Name: "u"}}}
	kind(t, nil, "clusterrolebindings").Rules.Default(b)
	if b.RoleRef.APIGroup != rbacv1.GroupName || b.Subjects[0].APIGroup != rbacv1.GroupName {
		t.Errorf("got %+v", b)
	}
}
