package flowcontrol

import (
	"context"
	"fmt"
	"time"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"

	"github.com/keelson-dev/keelson/authz"
)

// Class is what a request belongs to.
type Class struct {
	// Schema is the first that matches, and Level its priority level.
	Schema *flowcontrolv1.FlowSchema
	Level  *flowcontrolv1.PriorityLevelConfiguration
	// Flow tells the flows of a schema apart: the name of the user, the namespace of the request, or nothing.
	Flow string
}

// A Limiter decides when requests are served. Implementations are safe for concurrent use.
type Limiter interface {
	// Wait returns when the request may be served; the ticket must be given back by Done. The attributes need a user. An
	// error is a *Rejection: there is no place for the request, it has waited for as long as it may, or the context has
	// ended.
	Wait(ctx context.Context, a authz.Attributes) (Ticket, error)
}

// Unlimited is a Limiter that serves every request at once, and tells nobody's class.
type Unlimited struct{}

// Wait implements Limiter.
func (Unlimited) Wait(context.Context, authz.Attributes) (Ticket, error) { return Ticket{}, nil }

// Ticket is the permission to serve one request.
type Ticket struct {
	Class Class
	// Release gives back what the request took; nil gives back nothing. It is called once.
	Release func()
}

// Done is called once when the request has been served.
func (t Ticket) Done() {
	if t.Release != nil {
		t.Release()
	}
}

// Reason is why a request was not served. Reasons are upstream's labels of metrics.
type Reason string

// The reasons.
const (
	QueueFull        Reason = "queue-full"        // and no seat is free
	ConcurrencyLimit Reason = "concurrency-limit" // no seat is free, and the level has no queues
	TimeOut          Reason = "time-out"          // waited for as long as a request may
	Cancelled        Reason = "cancelled"         // the client did not wait for so long
)

// Rejection is the error of a request that is not served.
type Rejection struct {
	Class  Class
	Reason Reason
	// RetryAfter is when the client may try again: the longer, the more requests of the level have been rejected.
	RetryAfter time.Duration
}

func (r *Rejection) Error() string {
	return fmt.Sprintf("too many requests of the priority level %q (flow schema %q): %s", r.Class.Level.Name, r.Class.Schema.Name, r.Reason)
}
