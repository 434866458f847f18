package apiserver

import (
	"context"
	"net/http"
)

// tracingFilter has a tracer follow requests.
type tracingFilter struct{ tracer Tracer }

// open returns the context for the rest of the request.
func (f *tracingFilter) open(ctx context.Context, x *exchange, r *http.Request) context.Context {
	if f.tracer == nil {
		return ctx
	}
	ctx, x.traced = f.tracer.Trace(ctx, r, &Traced{&x.request, x.user, x.shortID(), x.received})
	return ctx
}
