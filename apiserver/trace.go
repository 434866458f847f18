package apiserver

import (
	"context"
	"net/http"
	"time"

	"github.com/keelson-dev/keelson/authn"
)

// Tracer follows requests through the server. Package tracing has one for OpenTelemetry.
type Tracer interface {
	// Trace is called when it is known who makes a request, before anything is decided about it. What serves the request
	// gets the context that Trace returns. The server calls end once, when the request has been served, with the code of the
	// response, or 0 if it was broken off before it began. Trace must not change the request.
	Trace(ctx context.Context, r *http.Request, about *Traced) (_ context.Context, end func(code int))
}

// Traced is what a Tracer is told of a request, besides what HTTP says. It must not be changed.
type Traced struct {
	Request  *Request
	User     *authn.Identity // who has authenticated
	AuditID  string          // at most 64 bytes of it: clients choose it
	Received time.Time       // before anything was done with it
}
