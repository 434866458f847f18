package oidc_test

import (
	"fmt"

	"github.com/keelson-dev/keelson/authn/oidc"
	"github.com/keelson-dev/keelson/authn/token"
)

// A server that accepts the tokens of an issuer: it runs the verifier beside itself.
func ExampleNew() {
	prefix := "oidc:"
	v, err := oidc.New(oidc.Config{
		Issuer:        oidc.Issuer{URL: "https://login.example.com", Audiences: []string{"kubernetes"}},
		ClaimMappings: oidc.ClaimMappings{Username: oidc.PrefixedClaimOrExpression{Claim: "sub", Prefix: &prefix}},
	}, oidc.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	people := token.New(v)
	fmt.Println(people != nil, v.Issuer())
	// Output: true https://login.example.com
}
