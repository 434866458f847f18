// Package alwaysallow is the Authorizer that allows everything, as upstream's AlwaysAllow mode
// does. It never fails and is safe for concurrent use.
package alwaysallow

import (
	"context"

	"github.com/keelson-dev/keelson/authn"
	"github.com/keelson-dev/keelson/authz"
)

// Authorizer allows everything. It is also an authz.RuleResolver.
type Authorizer struct{}

// New returns an Authorizer.
func New() Authorizer { return Authorizer{} }

// Authorize implements authz.Authorizer.
func (Authorizer) Authorize(context.Context, authz.Attributes) (authz.Decision, error) {
	return authz.Decision{Verdict: authz.Allow}, nil
}

// RulesFor implements authz.RuleResolver.
func (Authorizer) RulesFor(context.Context, *authn.Identity, string) (authz.Rules, error) {
	all := []string{"*"}
	return authz.Rules{
		Resources: []authz.ResourceRule{{Verbs: all, Groups: all, Resources: all}},
		Paths:     []authz.PathRule{{Verbs: all, Paths: all}},
	}, nil
}
