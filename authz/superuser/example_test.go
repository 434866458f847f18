package superuser_test

import (
	"context"
	"fmt"

	"github.com/keelson-dev/keelson/authn"
	"github.com/keelson-dev/keelson/authz"
	"github.com/keelson-dev/keelson/authz/superuser"
)

func Example() {
	z := superuser.New()
	for _, group := range []string{authn.GroupMasters, "dev"} {
		d, err := z.Authorize(context.Background(), authz.Attributes{User: &authn.Identity{Name: "ann", Groups: []string{group}}})
		fmt.Println(group, d.Verdict == authz.Allow, err)
	}
	// Output:
	// system:masters true <nil>
	// dev false <nil>
}
