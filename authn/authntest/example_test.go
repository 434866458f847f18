package authntest_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/keelson-dev/keelson/authn"
	"github.com/keelson-dev/keelson/authn/authntest"
	"github.com/keelson-dev/keelson/authn/token"
)

// How a test holds an authenticator to the contract; t is the test's.
func ExampleRun() {
	conformance := func(t *testing.T) {
		bearer := func(tok string) *http.Request {
			r := httptest.NewRequest(http.MethodGet, "/", nil)
			r.Header.Set("Authorization", "Bearer "+tok)
			return r
		}
		auth := token.New(token.Static(map[string]*authn.Identity{"s3cret": {Name: "ann"}}))
		authntest.Run(t, auth, authntest.Samples{
			Good: []authntest.Sample{{Request: bearer("s3cret"), Want: authn.Identity{Name: "ann"}}},
			Bad:  []*http.Request{bearer("guess")},
		})
	}
	_ = conformance
}
