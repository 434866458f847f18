package apiserver

import (
	"cmp"
	"net/http"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/apiserver/internal/fair"
	"github.com/keelson-dev/keelson/authn"
)

// Upstream's limits of requests in flight.
const (
	maxReadOnly = 400
	maxMutating = 200
)

// kubeSystem is the namespace of the cluster's own service accounts.
const kubeSystem = metav1.NamespaceSystem

// inFlightFilter bounds how many requests are served at once, fairly among those who make them.
type inFlightFilter struct {
	readOnly, mutating *fair.Seats
	// authenticates tells that there is an authenticator: users who have not authenticated can be told from others.
	authenticates bool
}

func newInFlightFilter(o Options) inFlightFilter {
	return inFlightFilter{
		readOnly:      fair.New(cmp.Or(o.MaxInFlight, maxReadOnly)),
		mutating:      fair.New(cmp.Or(o.MaxMutatingInFlight, maxMutating)),
		authenticates: o.Authenticator != nil,
	}
}

// seat is a request's place among those in flight; the zero value is none.
type seat struct {
	seats *fair.Seats
	flow  fair.Flow
}

func (s seat) leave() {
	if s.seats != nil {
		s.seats.Leave(s.flow)
	}
}

// enter finds a seat for the request, which must be left. It returns false if the user has as many as there are for them
// now, which it has answered. It comes after authentication, since it matters who asks.
//
// Long-running requests need no seat. Neither do those of this process, which decides for itself how many it makes.
// Upstream exempts probes and system:masters.
func (f *inFlightFilter) enter(x *exchange) (seat, bool) {
	if x.longRunning || x.timed == nil || exempt(x.user, &x.request) {
		return seat{}, true
	}
	s := seat{f.mutating, f.flow(x.user, &x.request)}
	if x.request.ReadOnly() {
		s.seats = f.readOnly
	}
	if s.seats.Take(s.flow) {
		return s, true
	}
	x.Header().Set("Retry-After", "1")
	http.Error(x, "Too many requests, please try again later.", http.StatusTooManyRequests)
	return seat{}, false
}

// exempt tells whether a request matches upstream's flow schemas "exempt" or "probes".
func exempt(user *authn.Identity, q *Request) bool {
	probe := q.Path == "/healthz" || q.Path == "/livez" || q.Path == "/readyz"
	return slices.Contains(user.Groups, authn.GroupMasters) || probe && q.Verb == "get"
}

// flow is what a request competes in; its priority level is that of upstream's default flow schemas.
func (f *inFlightFilter) flow(user *authn.Identity, q *Request) fair.Flow {
	namespace, _, isAccount := accountOf(user.Name)
	system := isAccount && namespace == kubeSystem || user.Name == "system:kube-controller-manager" || user.Name == "system:kube-scheduler"
	leases := q.Group == "coordination.k8s.io" && q.Resource == "leases" && q.Subresource == ""
	flow := fair.Flow{Level: fair.GlobalDefault, Name: user.Name}
	switch {
	case system && leases && (q.Verb == "get" || q.Verb == "create" || q.Verb == "update"):
		flow.Level = fair.LeaderElection
	case slices.Contains(user.Groups, authn.GroupNodes) && (leases || isNodes(q)):
		flow.Level = fair.NodeHigh
	case slices.Contains(user.Groups, authn.GroupNodes):
		flow.Level = fair.System
	case system:
		flow.Level = fair.WorkloadHigh
	case isAccount:
		// Users of a namespace can create as many accounts there as they like.
		flow = fair.Flow{Level: fair.WorkloadLow, Name: namespace}
	case f.authenticates && (user.Name == authn.Anonymous || slices.Contains(user.Groups, authn.GroupUnauthenticated)):
		flow = fair.Flow{Level: fair.Strangers}
	}
	return flow
}

// isNodes tells whether a request is about nodes, or their status.
func isNodes(q *Request) bool {
	return q.IsResource && q.Group == "" && q.Resource == "nodes" && (q.Subresource == "" || q.Subresource == "status")
}
