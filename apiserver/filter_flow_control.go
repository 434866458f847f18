package apiserver

import (
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/keelson-dev/keelson/flowcontrol"
	"github.com/keelson-dev/keelson/flowcontrol/fairqueuing"
)

// flowControlFilter has requests wait until it is their turn.
type flowControlFilter struct{ limiter flowcontrol.Limiter }

func newFlowControlFilter(o Options) flowControlFilter {
	if o.FlowControl != nil {
		return flowControlFilter{o.FlowControl}
	}
	return flowControlFilter{fairqueuing.New(flowcontrol.DefaultConfig(), fairqueuing.Options{})}
}

// enter waits until the request may be served; the ticket must be given back. It returns false if that is not to be, which it
// has answered. It comes after authentication, since it matters who asks.
//
// Of long-running requests only watches are counted, and those until their stream begins. Requests of this process are
// not: it decides for itself how many it makes.
func (f *flowControlFilter) enter(x *exchange, r *http.Request) (flowcontrol.Ticket, bool) {
	if _, ok := x.w.(callerWriter); ok || x.longRunning && x.request.Verb != "watch" {
		return flowcontrol.Ticket{}, true
	}
	t, err := f.limiter.Wait(r.Context(), attributes(x.user, &x.request))
	h := x.Header()
	if c := t.Class; c.Schema != nil {
		// UIDs, not names, which may tell clients what they are thought of.
		h[headerLevel], h[headerSchema] = []string{string(c.Level.UID)}, []string{string(c.Schema.UID)}
	}
	if err == nil {
		return t, true
	}
	after := time.Second
	if rejection := (*flowcontrol.Rejection)(nil); errors.As(err, &rejection) {
		after = max(after, rejection.RetryAfter)
	}
	h.Set("Retry-After", strconv.Itoa(int(after/time.Second)))
	http.Error(x, "Too many requests, please try again later.", http.StatusTooManyRequests)
	return t, false
}

// Upstream's headers, in the form that http.Header has.
const (
	headerLevel  = "X-Kubernetes-Pf-Prioritylevel-Uid"
	headerSchema = "X-Kubernetes-Pf-Flowschema-Uid"
)
