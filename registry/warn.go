package registry

import "context"

type warnKey struct{}

// WithWarnings returns a context in which Warn calls tell: only while the request is served, and from one
// goroutine.
func WithWarnings(ctx context.Context, tell func(text string)) context.Context {
	return context.WithValue(ctx, warnKey{}, tell)
}

// Warn warns the client of ctx's request about a problem that is no reason to refuse it.
func Warn(ctx context.Context, text string) {
	if tell, ok := ctx.Value(warnKey{}).(func(string)); ok {
		tell(text)
	}
}
