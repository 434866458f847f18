package core

import (
	"context"
	"time"

	"github.com/keelson-dev/keelson/authn"
)

// Options of Kinds; the zero value works.
type Options struct {
	// Tokens are how service accounts come by their tokens.
	Tokens Tokens
	// Services are what services may have.
	Services Services
}

// Tokens are how the token subresource of service accounts answers (KEP-1205).
type Tokens struct {
	// Issuer signs the tokens. Without it there is no such subresource.
	Issuer authn.Issuer
	// Audiences are those the server identifies with: whom tokens are meant for when the
	// request names nobody.
	Audiences []string
	// MaxExpiration is the longest life of a token; who asks for more gets this, and a warning.
	// 0 is what a request may ask for, 2^32 seconds.
	MaxExpiration time.Duration
	// Strict lets the token that a pod's volume asks for by default, one of 3607 s for the
	// server, expire then. Otherwise it lives for a year, as upstream's, for the sake of
	// programs that do not read it again, and only its use after that is told (KEP-1205).
	Strict bool
	// Annotate, if set, adds the ID of a token that was issued to the request's audit record.
	Annotate func(ctx context.Context, key, value string)
}
