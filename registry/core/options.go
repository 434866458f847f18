package core

import (
	"context"
	"time"

	"github.com/keelson-dev/keelson/authn"
)

// Options are the options of Kinds; the zero value is valid.
type Options struct {
	// Tokens configures the tokens of service accounts.
	Tokens Tokens
	// Components are what ComponentStatuses tell about.
	Components []Component
	// Services configures the addresses and ports of services.
	Services Services
}

// Tokens configures the token subresource of service accounts (KEP-1205).
type Tokens struct {
	// Issuer signs the tokens. Without it, the subresource does not exist.
	Issuer authn.Issuer
	// Audiences are those of this server: the audiences of a token whose request names none.
	Audiences []string
	// MaxExpiration is the longest lifetime of a token; longer requests are shortened to it, with a warning. 0
	// is the maximum of a request, 2^32 seconds.
	MaxExpiration time.Duration
	// Strict lets the token that a pod's volume requests by default, with a lifetime of 3607 s, expire after
	// that time. Otherwise it lives for a year, like upstream's, for programs that do not reread it; its later
	// use is only reported (KEP-1205).
	Strict bool
	// Annotate, if set, adds the ID of an issued token to the request's audit record.
	Annotate func(ctx context.Context, key, value string)
}
