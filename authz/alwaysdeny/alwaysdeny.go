// Package alwaysdeny is the Authorizer that allows nothing, as upstream's AlwaysDeny mode does: it has no opinion, so
// that another authorizer in the chain may still allow a request. It never fails and is safe for concurrent use.
package alwaysdeny

import (
	"context"

	"github.com/keelson-dev/keelson/authn"
	"github.com/keelson-dev/keelson/authz"
)

// Authorizer allows nothing. It is also an authz.RuleResolver.
type Authorizer struct{}

// New returns an Authorizer.
func New() Authorizer { return Authorizer{} }

// Authorize implements authz.Authorizer.
func (Authorizer) Authorize(context.Context, authz.Attributes) (authz.Decision, error) {
	return authz.Decision{Reason: "Everything is forbidden."}, nil
}

// RulesFor implements authz.RuleResolver.
func (Authorizer) RulesFor(context.Context, *authn.Identity, string) (authz.Rules, error) {
	return authz.Rules{}, nil
}
