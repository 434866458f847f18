package token_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/keelson-dev/keelson/authn"
	"github.com/keelson-dev/keelson/authn/token"
)

func Example() {
	auth := token.New(token.Static(map[string]*authn.Identity{"s3cret": {Name: "ann", Groups: []string{"dev"}}}))
	r := httptest.NewRequest(http.MethodGet, "/api/v1/pods", nil)
	r.Header.Set("Authorization", "Bearer s3cret")
	id, err := auth.Authenticate(r)
	fmt.Println(id.Name, id.Groups, err)
	// Output: ann [dev] <nil>
}
