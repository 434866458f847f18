package authn

import (
	"context"
	"slices"
)

type audienceKey struct{}

// WithAudiences returns a context for requests whose credentials must be valid for one of audiences. Without it they
// must be valid for the server itself.
//
// This concerns only credentials that name their audience: their Authenticator obeys the context and fills
// Identity.Audiences. Other authenticators ignore audiences: their credentials are for the server itself, and a caller
// that requires another audience must check Identity.Audiences (as a token review does).
func WithAudiences(ctx context.Context, audiences []string) context.Context {
	return context.WithValue(ctx, audienceKey{}, slices.Clone(audiences))
}

// Audiences returns what WithAudiences put there. ok is false when it was not called.
func Audiences(ctx context.Context) (audiences []string, ok bool) {
	audiences, ok = ctx.Value(audienceKey{}).([]string)
	return audiences, ok
}
