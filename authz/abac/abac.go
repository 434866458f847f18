package abac

import (
	"context"

	"github.com/keelson-dev/keelson/authn"
	"github.com/keelson-dev/keelson/authz"
)

// Name is upstream's name for this authorizer in a chain.
const Name = "ABAC"

// Policies is an Authorizer. It allows what one of them allows.
type Policies []Policy

var (
	_ authz.Authorizer   = Policies(nil)
	_ authz.RuleResolver = Policies(nil)
)

// Authorize implements authz.Authorizer. Without a user it fails with authz.ErrNoUser.
func (all Policies) Authorize(_ context.Context, a authz.Attributes) (authz.Decision, error) {
	if a.User == nil {
		return authz.Decision{}, authz.ErrNoUser
	}
	for i := range all {
		if all[i].allows(&a) {
			return authz.Decision{Verdict: authz.Allow}, nil
		}
	}
	return authz.Decision{Reason: "No policy matched."}, nil
}

// RulesFor implements authz.RuleResolver.
func (all Policies) RulesFor(_ context.Context, user *authn.Identity, namespace string) (authz.Rules, error) {
	var rules authz.Rules
	if user == nil {
		return rules, authz.ErrNoUser
	}
	for i := range all {
		p := &all[i]
		if !p.isFor(user) || !among(p.Namespace, namespace) {
			continue
		}
		verbs := []string{"*"}
		if p.Readonly {
			verbs = []string{"get", "list", "watch"}
		}
		if p.Resource != "" {
			rules.Resources = append(rules.Resources, authz.ResourceRule{Verbs: verbs, Groups: []string{p.APIGroup}, Resources: []string{p.Resource}})
		}
		if p.NonResourcePath != "" {
			rules.Paths = append(rules.Paths, authz.PathRule{Verbs: verbs, Paths: []string{p.NonResourcePath}})
		}
	}
	return rules, nil
}
