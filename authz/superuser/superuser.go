// Package superuser is the Authorizer that allows everything to the members of some groups. API servers put it first,
// with system:masters, so that cluster administrators can always repair roles. It is safe for concurrent use.
package superuser

import (
	"context"
	"slices"

	"github.com/keelson-dev/keelson/authn"
	"github.com/keelson-dev/keelson/authz"
)

// Name is upstream's name for this authorizer in a chain.
const Name = "kubernetes.io/system-privileged-group"

// Authorizer allows everything to members of its groups and has no opinion about other users.
type Authorizer struct{ groups []string }

// New returns an Authorizer for members of any of groups; the default is authn.GroupMasters.
func New(groups ...string) *Authorizer {
	if len(groups) == 0 {
		groups = []string{authn.GroupMasters}
	}
	return &Authorizer{groups: slices.Clone(groups)}
}

// Authorize implements authz.Authorizer. Without a user it fails with authz.ErrNoUser.
func (z *Authorizer) Authorize(_ context.Context, a authz.Attributes) (authz.Decision, error) {
	if a.User == nil {
		return authz.Decision{Reason: "Error"}, authz.ErrNoUser
	}
	for _, group := range a.User.Groups {
		if slices.Contains(z.groups, group) {
			return authz.Decision{Verdict: authz.Allow}, nil
		}
	}
	return authz.Decision{}, nil
}
