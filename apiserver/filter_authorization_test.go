package apiserver_test

import (
	"context"
	"errors"
	"testing"

	"github.com/keelson-dev/keelson/apiserver"
	"github.com/keelson-dev/keelson/authz"
)

func TestAuthorizationError(t *testing.T) {
	s := newServer(t, apiserver.Options{
		Authorizer: authz.Func(func(context.Context, authz.Attributes) (authz.Decision, error) {
			return authz.Decision{}, errors.New("no answer of <the webhook>")
		}),
	})
	w := call(s, "ann", "GET", "/api/v1/pods?limit=1")
	if want := "Internal Server Error: \"/api/v1/pods?limit=1\": no answer of &lt;the webhook&gt;\n"; w.Code != 500 || w.Body.String() != want {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}
