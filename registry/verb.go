package registry

import "context"

type verbKey struct{}

// WithVerb returns a context that tells guards what a request is, for authorizers: "patch" of those that patch an object.
func WithVerb(ctx context.Context, verb string) context.Context {
	return context.WithValue(ctx, verbKey{}, verb)
}

// Verb returns the verb of WithVerb, or "update".
func Verb(ctx context.Context) string {
	if verb, ok := ctx.Value(verbKey{}).(string); ok {
		return verb
	}
	return "update"
}
