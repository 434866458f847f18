package authn_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/keelson-dev/keelson/authn"
	"github.com/keelson-dev/keelson/authn/token"
)

// A chain as an API server has it: whoever shows a token must show a good one, and everybody
// else is anonymous.
func Example() {
	tokens := token.New(token.Static(map[string]*authn.Identity{"s3cret": {Name: "ann", Groups: []string{"dev"}}}))
	door := authn.Func(func(r *http.Request) (*authn.Identity, error) {
		if r.Header.Get("X-Badge") == "" {
			return nil, authn.ErrNoCredentials
		}
		return nil, errors.New("badges are no longer accepted")
	})
	chain := authn.AnonymousFallback(authn.WithGroup(authn.Union(door, tokens), authn.GroupAuthenticated))

	r := httptest.NewRequest(http.MethodGet, "/api", nil)
	r.Header.Set("Authorization", "Bearer s3cret")
	id, _ := chain.Authenticate(r)
	fmt.Println(id.Name, id.Groups)

	r.Header.Set("Authorization", "Bearer guess")
	_, err := chain.Authenticate(r)
	fmt.Println(err)

	id, _ = chain.Authenticate(httptest.NewRequest(http.MethodGet, "/api", nil))
	fmt.Println(id.Name, id.Groups)
	// Output:
	// ann [dev system:authenticated]
	// invalid bearer token
	// system:anonymous [system:unauthenticated]
}
