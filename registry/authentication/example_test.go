package authentication_test

import (
	"context"
	"fmt"

	authenticationv1 "k8s.io/api/authentication/v1"

	"github.com/keelson-dev/keelson/authn"
	"github.com/keelson-dev/keelson/authn/token"
	"github.com/keelson-dev/keelson/registry/authentication"
)

func ExampleKinds() {
	auth := token.New(token.Static(map[string]*authn.Identity{"s3cret": {Name: "ann"}}))
	for _, kind := range authentication.Kinds(auth, authentication.Options{}) {
		if kind.Plural != "tokenreviews" {
			continue
		}
		for _, tok := range []string{"s3cret", "guess"} {
			answer, err := kind.Answer(context.Background(), nil, "", &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: tok}})
			status := answer.(*authenticationv1.TokenReview).Status
			fmt.Printf("%t %q %q %v\n", status.Authenticated, status.User.Username, status.Error, err)
		}
	}
	// Output:
	// true "ann" "" <nil>
	// false "" "invalid bearer token" <nil>
}
