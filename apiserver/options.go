package apiserver

import (
	"cmp"
	"context"
	"log/slog"
	"net/http"
	"time"

	"k8s.io/apimachinery/pkg/version"

	"github.com/keelson-dev/keelson/admission"
	"github.com/keelson-dev/keelson/apiserver/audit"
	"github.com/keelson-dev/keelson/authn"
	"github.com/keelson-dev/keelson/authz"
	"github.com/keelson-dev/keelson/flowcontrol"
)

// Options of a Server. The zero value forbids everything: the caller decides who may do what.
type Options struct {
	// Authenticator finds out who makes a request. nil takes everyone for system:anonymous.
	Authenticator authn.Authenticator
	// Authorizer decides whether they may make it. nil forbids it.
	Authorizer authz.Authorizer
	// Admission mutates and validates writes, in order. nil admits everything.
	Admission admission.Chain
	// Version is served at /version; FillVersion completes it.
	Version version.Info
	// MaxBody bounds request bodies, in bytes; 0 is 3 MiB.
	MaxBody int64
	// Audit records requests. nil records none.
	Audit *audit.Log
	// Observer is told of requests, for metrics. nil is none.
	Observer Observer
	// Tracer follows requests. nil is none.
	Tracer Tracer
	// CBOR lets clients speak CBOR (KEP-4222), as upstream's alpha feature CBORServingAndStorage does; nothing is stored
	// in it.
	CBOR bool
	// FlowControl decides when requests are served. nil serves 600 at once, shared as upstream's default FlowSchemas and
	// PriorityLevelConfigurations have it; flowcontrol.Unlimited serves all. Long-running requests other than watches are
	// not counted, nor are those of this process (Transport).
	FlowControl flowcontrol.Limiter
	// Patience bounds how long requests take, and how long their clients may take to send them and to read the answers.
	Patience Patience
	// Paths are served besides the API, after authentication and authorization: by exact path, or by prefix if the pattern
	// ends in a slash. The API's own paths cannot be taken.
	Paths map[string]http.Handler
	// Connector connects clients to containers and ports: logs, exec, attach, port-forward and proxy. nil answers such
	// requests with 501.
	Connector Connector
	// Delegates serve versions of API groups in the server's place. nil is none.
	Delegates Delegates
	// Logger gets a line for each request, at debug level unless the server failed, and what goes wrong. nil discards.
	Logger *slog.Logger
}

// withDefaults fills in what was left out.
func (o Options) withDefaults() Options {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Authorizer == nil {
		o.Authorizer = authz.Func(func(context.Context, authz.Attributes) (authz.Decision, error) {
			return authz.Decision{Reason: "no authorizer is configured"}, nil
		})
	}
	if o.MaxBody <= 0 {
		o.MaxBody = defaultMaxBody
	}
	o.Patience = o.Patience.orDefault()
	return o
}

// Patience is how long a request that is not long-running, as watches are, may hold resources that others need.
type Patience struct {
	// Request is how long it may take as a whole; 0 is one minute. Clients may ask for less by the parameter "timeout".
	Request time.Duration
	// Body is how long the body may take, from when it is first read; then the request is answered with 408. 0 is 30 s.
	Body time.Duration
	// Answer is how long the client may read nothing of the answer before its connection is closed. 0 is 10 s.
	Answer time.Duration
}

func (p Patience) orDefault() Patience {
	return Patience{Request: cmp.Or(max(p.Request, 0), time.Minute), Body: cmp.Or(max(p.Body, 0), 30*time.Second), Answer: cmp.Or(max(p.Answer, 0), 10*time.Second)}
}
