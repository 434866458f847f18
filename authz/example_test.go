package authz_test

import (
	"context"
	"fmt"

	"github.com/keelson-dev/keelson/authn"
	"github.com/keelson-dev/keelson/authz"
	"github.com/keelson-dev/keelson/authz/alwaysdeny"
	"github.com/keelson-dev/keelson/authz/superuser"
)

// A chain: masters may do everything, everybody may read their own mail, and that is all.
func Example() {
	mail := authz.Func(func(_ context.Context, a authz.Attributes) (authz.Decision, error) {
		if a.Resource == "mail" && a.Verb == "get" && a.Name == a.User.Name {
			return authz.Decision{Verdict: authz.Allow, Reason: "it is yours"}, nil
		}
		return authz.Decision{}, nil
	})
	chain := authz.Union(
		authz.Named{Name: superuser.Name, Authorizer: superuser.New()},
		authz.Named{Name: "mail", Authorizer: mail},
		authz.Named{Name: "alwaysdeny", Authorizer: alwaysdeny.New()},
	)
	for _, name := range []string{"ann", "bob"} {
		d, _ := chain.Authorize(context.Background(), authz.Attributes{
			User: &authn.Identity{Name: "ann"}, Verb: "get", Resource: "mail", Name: name, ResourceRequest: true,
		})
		fmt.Println(d.Verdict == authz.Allow, d.Reason)
	}
	// Output:
	// true it is yours
	// false alwaysdeny: Everything is forbidden.
}
