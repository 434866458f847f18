package rbac_test

import (
	"context"
	"errors"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/keelson-dev/keelson/authn"
	"github.com/keelson-dev/keelson/authz/rbac"
)

type roleWrite struct {
	Namespace, Name string
	Rules           []rbacv1.PolicyRule
	Aggregates      bool
}

func TestCheckRole(t *testing.T) {
	p := policy()
	p.ClusterRoles = append(p.ClusterRoles,
		clusterRole("escalators", on(list("escalate"), list(rbacv1.GroupName), list("clusterroles"))),
		clusterRole("one", on(list("escalate"), list(rbacv1.GroupName), list("roles"), "mine")))
	p.ClusterRoles = append(p.ClusterRoles, clusterRole("both", on(list("escalate"), list(rbacv1.GroupName), list("roles", "clusterroles"))))
	p.RoleBindings = append(p.RoleBindings, bind("dev", "both", "ClusterRole", "both", user("local")))
	p.ClusterRoleBindings = append(p.ClusterRoleBindings, bindCluster("escalators", "escalators", user("esc")), bindCluster("one", "one", user("esc")))
	z := rbac.New(p.Sources())
	e := rbac.NewEscalation(z, z)
	readPods := on(list("get", "list"), list(""), list("pods"))
	secrets := []rbacv1.PolicyRule{on(list("get", "list"), list(""), list("secrets")), on(list("get"), list(""), list("secrets"), "a", "b"), {Verbs: list("get"), NonResourceURLs: list("/x")}}
	everything := []rbacv1.PolicyRule{on(list("*"), list("*"), list("*")), {Verbs: list("*"), NonResourceURLs: list("*")}}
	for name, c := range map[string]struct {
		user  *authn.Identity
		write roleWrite
		want  string
	}{
		"what one has":               {who("ann"), roleWrite{Namespace: "dev", Rules: []rbacv1.PolicyRule{readPods}}, ""},
		"nothing":                    {who("eve"), roleWrite{Namespace: "dev"}, ""},
		"in the wrong namespace":     {who("ann"), roleWrite{Namespace: "test", Rules: []rbacv1.PolicyRule{readPods}}, "user \"ann\" (groups=[]) is attempting to grant RBAC permissions not currently held:\n{APIGroups:[\"\"], Resources:[\"pods\"], Verbs:[\"get\" \"list\"]}; resolution errors: [role.rbac.authorization.k8s.io \"writer\" not found]"},
		"cluster-wide":               {who("ann"), roleWrite{Rules: []rbacv1.PolicyRule{readPods}}, "user \"ann\" (groups=[]) is attempting to grant RBAC permissions not currently held:\n{APIGroups:[\"\"], Resources:[\"pods\"], Verbs:[\"get\" \"list\"]}"},
		"what one has not":           {who("eve", "dev", "x"), roleWrite{Namespace: "dev", Rules: secrets}, "user \"eve\" (groups=[\"dev\" \"x\"]) is attempting to grant RBAC permissions not currently held:\n{APIGroups:[\"\"], Resources:[\"secrets\"], ResourceNames:[\"a\"], Verbs:[\"get\"]}\n{APIGroups:[\"\"], Resources:[\"secrets\"], ResourceNames:[\"b\"], Verbs:[\"get\"]}\n{APIGroups:[\"\"], Resources:[\"secrets\"], Verbs:[\"get\" \"list\"]}\n{NonResourceURLs:[\"/x\"], Verbs:[\"get\"]}"},
		"everything, by admin":       {who("root"), roleWrite{Rules: everything, Aggregates: true}, ""},
		"gathering, by a user":       {who("ann"), roleWrite{Aggregates: true}, "must have cluster-admin privileges to use the aggregationRule"},
		"by a master":                {who("eve", "system:masters"), roleWrite{Rules: everything, Aggregates: true}, ""},
		"by who may escalate":        {who("esc"), roleWrite{Rules: everything, Aggregates: true}, ""},
		"escalating one by name":     {who("esc"), roleWrite{Namespace: "dev", Name: "mine", Rules: secrets[:1]}, ""},
		"escalating one of no name":  {who("esc"), roleWrite{Namespace: "dev", Rules: []rbacv1.PolicyRule{readPods}}, "user \"esc\" (groups=[]) is attempting to grant RBAC permissions not currently held:\n{APIGroups:[\"\"], Resources:[\"pods\"], Verbs:[\"get\" \"list\"]}"},
		"escalating in a namespace":  {who("local"), roleWrite{Namespace: "dev", Rules: secrets[:1]}, ""},
		"escalating in another":      {who("local"), roleWrite{Namespace: "test", Rules: []rbacv1.PolicyRule{readPods}}, "user \"local\" (groups=[]) is attempting to grant RBAC permissions not currently held:\n{APIGroups:[\"\"], Resources:[\"pods\"], Verbs:[\"get\" \"list\"]}"},
		"escalating everywhere":      {who("local"), roleWrite{Rules: []rbacv1.PolicyRule{readPods}}, "user \"local\" (groups=[]) is attempting to grant RBAC permissions not currently held:\n{APIGroups:[\"\"], Resources:[\"pods\"], Verbs:[\"get\" \"list\"]}"},
		"a subresource of one's own": {who("ann"), roleWrite{Namespace: "dev", Rules: []rbacv1.PolicyRule{on(list("update"), list(""), list("configmaps/status"))}}, "user \"ann\" (groups=[]) is attempting to grant RBAC permissions not currently held:\n{APIGroups:[\"\"], Resources:[\"configmaps/status\"], Verbs:[\"update\"]}"},
		"by nobody":                  {nil, roleWrite{Rules: everything}, "no user on context"},
		"a subresource of anything":  {who("ann"), roleWrite{Namespace: "dev", Rules: []rbacv1.PolicyRule{on(list("get"), list("apps"), list("statefulsets/scale"))}}, ""},
		"a name of what one has all": {who("ann"), roleWrite{Namespace: "dev", Rules: []rbacv1.PolicyRule{on(list("get"), list(""), list("pods"), "p")}}, ""},
		"all of what one has a name": {who("ann"), roleWrite{Namespace: "dev", Rules: []rbacv1.PolicyRule{on(list("delete"), list(""), list("configmaps"))}}, "user \"ann\" (groups=[]) is attempting to grant RBAC permissions not currently held:\n{APIGroups:[\"\"], Resources:[\"configmaps\"], Verbs:[\"delete\"]}"},
	} {
		t.Run(name, func(t *testing.T) {
			ctx := t.Context()
			if c.user != nil {
				ctx = authn.NewContext(ctx, c.user)
			}
			if err := e.CheckRole(ctx, c.write.Namespace, c.write.Name, c.write.Rules, c.write.Aggregates); message(err) != c.want {
				t.Errorf("got %q, want %q", message(err), c.want)
			}
		})
	}
}

func message(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func TestCheckBinding(t *testing.T) {
	p := policy()
	p.ClusterRoles = append(p.ClusterRoles, clusterRole("binders", on(list("bind"), list(rbacv1.GroupName), list("clusterroles"), "admin")))
	p.ClusterRoles = append(p.ClusterRoles, clusterRole("rolebinders", on(list("bind"), list(rbacv1.GroupName), list("roles"), "writer", "admin")))
	p.RoleBindings = append(p.RoleBindings, bind("dev", "binders", "ClusterRole", "binders", user("binder")))
	p.RoleBindings = append(p.RoleBindings, bind("dev", "rolebinders", "ClusterRole", "rolebinders", user("rolebinder")))
	z := rbac.New(p.Sources())
	e := rbac.NewEscalation(z, z)
	ref := func(kind, name string) rbacv1.RoleRef {
		return rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: kind, Name: name}
	}
	var (
		escalation *rbac.EscalationError
		missing    *rbac.NotFoundError
	)
	as := func(name string, groups ...string) context.Context {
		return authn.NewContext(t.Context(), who(name, groups...))
	}
	for name, c := range map[string]struct {
		ctx       context.Context
		namespace string
		ref       rbacv1.RoleRef
		ok        func(error) bool
	}{
		"a role one has":         {as("ann"), "dev", ref("Role", "writer"), func(err error) bool { return err == nil }},
		"one has it elsewhere":   {as("ann"), "", ref("ClusterRole", "reader"), func(err error) bool { return errors.As(err, &escalation) }},
		"one may bind it":        {as("binder"), "dev", ref("ClusterRole", "admin"), func(err error) bool { return err == nil }},
		"one may bind a role":    {as("rolebinder"), "dev", ref("Role", "writer"), func(err error) bool { return err == nil }},
		"one may bind no other":  {as("rolebinder"), "dev", ref("ClusterRole", "admin"), func(err error) bool { return errors.As(err, &escalation) }},
		"one may not elsewhere":  {as("rolebinder"), "test", ref("Role", "writer"), func(err error) bool { return errors.As(err, &missing) }},
		"one may bind another":   {as("binder"), "dev", ref("ClusterRole", "reader"), func(err error) bool { return errors.As(err, &escalation) }},
		"one may not cluster":    {as("binder"), "", ref("ClusterRole", "admin"), func(err error) bool { return errors.As(err, &escalation) }},
		"there is none":          {as("ann"), "dev", ref("ClusterRole", "gone"), func(err error) bool { return errors.As(err, &missing) && missing.Kind == "ClusterRole" }},
		"there is none here":     {as("ann"), "test", ref("Role", "writer"), func(err error) bool { return errors.As(err, &missing) && missing.Namespace == "test" }},
		"there is none, master":  {as("eve", "system:masters"), "dev", ref("ClusterRole", "gone"), func(err error) bool { return err == nil }},
		"an odd kind":            {as("root"), "dev", ref("Gadget", "x"), func(err error) bool { return err != nil }},
		"nobody binds something": {t.Context(), "dev", ref("ClusterRole", "reader"), func(err error) bool { return errors.Is(err, rbac.ErrNoUser) }},
	} {
		t.Run(name, func(t *testing.T) {
			if err := e.CheckBinding(c.ctx, c.namespace, c.ref); !c.ok(err) {
				t.Errorf("got %v", err)
			}
		})
	}
}
