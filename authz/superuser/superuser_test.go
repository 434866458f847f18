package superuser_test

import (
	"errors"
	"testing"

	"github.com/keelson-dev/keelson/authn"
	"github.com/keelson-dev/keelson/authz"
	"github.com/keelson-dev/keelson/authz/superuser"
)

// TestMembersOnly: of the groups that were named, and of no other, not even the one that counts when none is.
func TestMembersOnly(t *testing.T) {
	for name, tt := range map[string]struct {
		groups []string
		user   *authn.Identity
		want   authz.Verdict
		err    error
	}{
		"nobody":         {nil, nil, authz.NoOpinion, authz.ErrNoUser},
		"without groups": {nil, &authn.Identity{Name: authn.GroupMasters}, authz.NoOpinion, nil},
		"the last group": {nil, &authn.Identity{Groups: []string{"dev", authn.GroupMasters}}, authz.Allow, nil},
		"another group":  {nil, &authn.Identity{Groups: []string{"dev", "system:master"}}, authz.NoOpinion, nil},
		"a named group":  {[]string{"a", "b"}, &authn.Identity{Groups: []string{"b"}}, authz.Allow, nil},
		"the usual one":  {[]string{"a", "b"}, &authn.Identity{Groups: []string{authn.GroupMasters}}, authz.NoOpinion, nil},
	} {
		d, err := superuser.New(tt.groups...).Authorize(t.Context(), authz.Attributes{User: tt.user})
		if d.Verdict != tt.want || !errors.Is(err, tt.err) {
			t.Errorf("%s: %v, %v", name, d, err)
		}
	}
}
