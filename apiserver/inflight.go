package apiserver

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/apiserver/internal/fair"
	"github.com/keelson-dev/keelson/authn"
)

// Limits of requests in flight, as upstream's.
const (
	maxReadOnly = 400
	maxMutating = 200
)

// kubeSystem is the namespace whose service accounts are the cluster's own.
const kubeSystem = metav1.NamespaceSystem

// seat is what a request has of those in flight; the zero one is none.
type seat struct {
	of   *fair.Seats
	flow fair.Flow
}

func (s seat) leave() {
	if s.of != nil {
		s.of.Leave(s.flow)
	}
}

// enter finds a seat for the request, which must be left. false means that the user has as many as there are for them
// now, and the request was answered. It comes after authentication, for it matters who asks.
//
// Long-running requests need no seat. Those of this process neither: it decides itself how many it makes. Upstream
// exempts probes and system masters.
func (x *exchange) enter(r *http.Request) (seat, bool) {
	if x.long || x.timed == nil || exempt(x.user, &x.q) {
		x.sawBegin(r)
		return seat{}, true
	}
	s := seat{x.server.mutating, x.server.flow(x.user, &x.q)}
	if x.q.ReadOnly() {
		s.of = x.server.readOnly
	}
	if s.of.Take(s.flow) {
		x.sawBegin(r)
		return s, true
	}
	x.sawRejection(r)
	x.Header().Set("Retry-After", "1")
	http.Error(x, "Too many requests, please try again later.", http.StatusTooManyRequests)
	return seat{}, false
}

// exempt tells whether a request is one of upstream's flow schemas "exempt" and "probes".
func exempt(id *authn.Identity, q *Request) bool {
	probe := q.Path == "/healthz" || q.Path == "/livez" || q.Path == "/readyz"
	return slices.Contains(id.Groups, authn.GroupMasters) || probe && q.Verb == "get"
}

// flow tells with whom a request competes: the level is that of upstream's default flow schemas.
func (s *Server) flow(id *authn.Identity, q *Request) fair.Flow {
	namespace, _, isAccount := accountOf(id.Name)
	system := isAccount && namespace == kubeSystem || id.Name == "system:kube-controller-manager" || id.Name == "system:kube-scheduler"
	leases := q.Group == "coordination.k8s.io" && q.Resource == "leases" && q.Subresource == ""
	f := fair.Flow{Level: fair.GlobalDefault, Name: id.Name}
	switch {
	case system && leases && (q.Verb == "get" || q.Verb == "create" || q.Verb == "update"):
		f.Level = fair.LeaderElection
	case slices.Contains(id.Groups, authn.GroupNodes) && (leases || ofNodes(q)):
		f.Level = fair.NodeHigh
	case slices.Contains(id.Groups, authn.GroupNodes):
		f.Level = fair.System
	case system:
		f.Level = fair.WorkloadHigh
	case isAccount:
		// Whoever may use a namespace can make as many accounts there as they like.
		f = fair.Flow{Level: fair.WorkloadLow, Name: namespace}
	case s.strangers && (id.Name == authn.Anonymous || slices.Contains(id.Groups, authn.GroupUnauthenticated)):
		f = fair.Flow{Level: fair.Strangers}
	}
	return f
}

func ofNodes(q *Request) bool {
	return q.IsResource && q.Group == "" && q.Resource == "nodes" && (q.Subresource == "" || q.Subresource == "status")
}

// Patience is how long a request that is not long-running waits for its client: a request holds resources of the
// server that others need.
type Patience struct {
	// Body is how long the body may take, from when it begins to be read; after that the answer is 408. 0 is 30 s.
	Body time.Duration
	// Answer is how long the client may read nothing of the answer before it is cut off; 0 is 10 s.
	Answer time.Duration
}

func (p Patience) orDefault() Patience {
	return Patience{Body: cmp.Or(max(p.Body, 0), 30*time.Second), Answer: cmp.Or(max(p.Answer, 0), 10*time.Second)}
}

// punctual is a request's body that has to come in time.
type punctual struct {
	io.ReadCloser
	of    *timedWriter
	limit time.Duration
	begun bool
}

// Read fails with a Status when time is over.
func (p *punctual) Read(b []byte) (int, error) {
	if !p.begun {
		p.begun = true
		p.of.awaitUntil(time.Now().Add(p.limit))
	}
	p.of.reading.Store(true)
	n, err := p.ReadCloser.Read(b)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		p.of.giveUp()
		return n, errSlow(p.limit)
	}
	p.of.reading.Store(false)
	return n, err
}

// errSlow is the answer to a request whose body did not come.
func errSlow(limit time.Duration) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusRequestTimeout, Reason: metav1.StatusReasonTimeout,
		Message: fmt.Sprintf("the request body was not received within %v", limit),
	}}
}

func limitOf(asked, standard int) int { return cmp.Or(asked, standard) }
