package registry

import "context"

type warnKey struct{}

// WithWarnings returns a context in which Warn calls tell. It is called while the request that
// the context belongs to is served, by one goroutine.
func WithWarnings(ctx context.Context, tell func(text string)) context.Context {
	return context.WithValue(ctx, warnKey{}, tell)
}

// Warn tells the client of the request that ctx belongs to something about it that is no reason
// to refuse it.
func Warn(ctx context.Context, text string) {
	if tell, ok := ctx.Value(warnKey{}).(func(string)); ok {
		tell(text)
	}
}
