package rbac

import (
	"context"
	"fmt"

	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/keelson-dev/keelson/authn"
	"github.com/keelson-dev/keelson/authz"
)

// Authorizer decides by roles and bindings. It implements authz.Authorizer and authz.RuleResolver and never denies:
// other authorizers may still allow what it does not.
type Authorizer struct {
	in       Sources
	compiled compiler
}

// New returns an Authorizer over in. It adds indexes to the sources of bindings, so call it before they run.
func New(in Sources) *Authorizer {
	for name, wanted := range map[string]identity{byUser: aUser, byGroup: aGroup} {
		in.ClusterRoleBindings.AddIndex(name, func(b *rbacv1.ClusterRoleBinding) []string {
			return identified(wanted, b.Subjects, "")
		})
		in.RoleBindings.AddIndex(name, func(b *rbacv1.RoleBinding) []string {
			return identified(wanted, b.Subjects, b.Namespace)
		})
	}
	return &Authorizer{in: in}
}

// Authorize implements authz.Authorizer. Without a user it fails with authz.ErrNoUser. Bindings to missing roles appear
// in the reason of a decision that does not allow; they are not an error. One that allows has a Reasoner.
func (z *Authorizer) Authorize(_ context.Context, a authz.Attributes) (authz.Decision, error) {
	if a.User == nil {
		return authz.Decision{}, authz.ErrNoUser
	}
	q := newQuery(a)
	var missing []error
	bindings := z.applying(a.User, a.Namespace)
	for b, reasoner, ok := bindings.next(); ok; b, reasoner, ok = bindings.next() {
		role, err := z.resolve(b.ref, b.namespace)
		if err != nil {
			missing = append(missing, err)
			continue
		}
		if _, ok := role.match(&q); ok {
			return authz.Decision{Verdict: authz.Allow, Reasoner: reasoner}, nil
		}
	}
	if len(missing) > 0 {
		return authz.Decision{Reason: "RBAC: " + aggregate(missing).Error()}, nil
	}
	return authz.Decision{}, nil
}

// RulesFor implements authz.RuleResolver. The error says which roles do not exist.
func (z *Authorizer) RulesFor(_ context.Context, user *authn.Identity, namespace string) (authz.Rules, error) {
	var rules authz.Rules
	policy, err := z.PolicyRules(user, namespace)
	for _, r := range policy {
		if len(r.Resources) > 0 {
			rules.Resources = append(rules.Resources, authz.ResourceRule{
				Verbs: r.Verbs, Groups: r.APIGroups, Resources: r.Resources, ResourceNames: r.ResourceNames,
			})
		}
		if len(r.NonResourceURLs) > 0 {
			rules.Paths = append(rules.Paths, authz.PathRule{Verbs: r.Verbs, Paths: r.NonResourceURLs})
		}
	}
	return rules, err
}

// PolicyRules returns every rule that applies to user in namespace, or only cluster-wide if namespace is empty. The
// rules are shared and read-only. The error says which roles do not exist; the rules returned with it are valid.
func (z *Authorizer) PolicyRules(user *authn.Identity, namespace string) ([]rbacv1.PolicyRule, error) {
	if user == nil {
		return nil, authz.ErrNoUser
	}
	var (
		all     []rbacv1.PolicyRule
		missing []error
	)
	bindings := z.applying(user, namespace)
	for b, _, ok := bindings.next(); ok; b, _, ok = bindings.next() {
		role, err := z.resolve(b.ref, b.namespace)
		if err != nil {
			missing = append(missing, err)
			continue
		}
		all = append(all, role.list...)
	}
	return all, aggregate(missing)
}

// RoleRules returns the rules of the role that ref names; namespace is that of the binding, or empty. They are shared
// and read-only. It fails with a *NotFoundError if there is no such role.
func (z *Authorizer) RoleRules(ref rbacv1.RoleRef, namespace string) ([]rbacv1.PolicyRule, error) {
	role, err := z.resolve(&ref, namespace)
	if err != nil {
		return nil, err
	}
	return role.list, nil
}

func (z *Authorizer) resolve(ref *rbacv1.RoleRef, namespace string) (rules, error) {
	switch ref.Kind {
	case "Role":
		if role, ok := z.in.Roles.Get(namespace, ref.Name); ok {
			return z.compiled.of(role, role.Rules), nil
		}
		return rules{}, &NotFoundError{Kind: ref.Kind, Namespace: namespace, Name: ref.Name}
	case "ClusterRole":
		if role, ok := z.in.ClusterRoles.Get("", ref.Name); ok {
			return z.compiled.of(role, role.Rules), nil
		}
		return rules{}, &NotFoundError{Kind: ref.Kind, Name: ref.Name}
	default:
		return rules{}, fmt.Errorf("unsupported role reference kind: %q", ref.Kind)
	}
}
