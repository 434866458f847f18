package inprocess

import (
	"context"
	"net/http"

	"github.com/keelson-dev/keelson/authn"
)

type key struct{}

// Attach returns a context that makes id the user of requests served in this process.
func Attach(ctx context.Context, id *authn.Identity) context.Context {
	return context.WithValue(ctx, key{}, id)
}

// New returns the Authenticator that trusts identities put into the request's context by
// Attach. All other requests carry no credentials.
func New() authn.Authenticator {
	return authn.Func(func(r *http.Request) (*authn.Identity, error) {
		if id, _ := r.Context().Value(key{}).(*authn.Identity); id != nil {
			return id, nil
		}
		return nil, authn.ErrNoCredentials
	})
}
