package authn

import (
	"context"
	"slices"
)

type audienceKey struct{}

// WithAudiences returns a context for requests whose credentials must be meant for one of
// audiences. Without it they must be meant for the server itself.
//
// Only credentials that name their audience differ: an Authenticator of such credentials
// obeys the context and fills Identity.Audiences. The others know nothing of audiences: their
// credentials are meant for the server itself, and who asked for another audience must see to
// that (a token review does).
func WithAudiences(ctx context.Context, audiences []string) context.Context {
	return context.WithValue(ctx, audienceKey{}, slices.Clone(audiences))
}

// Audiences returns what WithAudiences put there. ok is false when it was not called.
func Audiences(ctx context.Context) (audiences []string, ok bool) {
	audiences, ok = ctx.Value(audienceKey{}).([]string)
	return audiences, ok
}
