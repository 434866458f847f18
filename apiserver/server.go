package apiserver

import (
	"github.com/keelson-dev/keelson/registry"
)

// New returns a server of the registry's kinds.
func New(r *registry.Registry, o Options) *Server {
	o = o.withDefaults()
	b := newBackend(r, o)
	rt := newRouter(b, o)
	s := &Server{}
	s.chain = chain{
		cbor:           cborFilter{o.CBOR},
		panics:         panicFilter{o.Logger},
		observation:    observationFilter{o.Observer, rt},
		timeout:        timeoutFilter{max: o.Patience.Request, patience: o.Patience.Answer, next: s.chain.filter, router: rt, log: o.Logger},
		accessLog:      accessLogFilter{o.Logger},
		audit:          auditFilter{o.Audit, &b.decoder},
		authentication: newAuthenticationFilter(o),
		tracing:        tracingFilter{o.Tracer},
		impersonation:  impersonationFilter{authorizer: o.Authorizer, log: o.Logger, modes: impersonationModes()},
		flowControl:    newFlowControlFilter(o),
		body:           bodyFilter{o.Patience.Body},
		authorization:  authorizationFilter{o.Authorizer, o.Logger},
		router:         rt,
	}
	return s
}
