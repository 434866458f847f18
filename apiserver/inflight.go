package apiserver

import (
	"net/http"
	"slices"
	"sync/atomic"

	"github.com/keelson-dev/keelson/authn"
)

// Limits of requests in flight, as upstream's without API priority and fairness.
const (
	maxReadOnly = 400
	maxMutating = 200
)

// seats bound how many requests of a kind are served at once.
type seats struct {
	max   int64 // below 0: no limit
	taken atomic.Int64
}

func (s *seats) take() bool {
	if n := s.taken.Add(1); s.max < 0 || n <= s.max {
		return true
	}
	s.taken.Add(-1)
	return false
}

func (s *seats) leave() { s.taken.Add(-1) }

// enter finds a seat for the request; nil is none that must be left. false means that there is
// none free and the request was answered. Long-running requests need none. Those of this process
// neither: it decides itself how many it makes, and who has authenticated as a system master is
// always let in.
func (x *exchange) enter(r *http.Request) (*seats, bool) {
	if x.long || x.timed == nil {
		x.sawBegin(r)
		return nil, true
	}
	s := &x.server.mutating
	if x.q.ReadOnly() {
		s = &x.server.readOnly
	}
	switch {
	case s.take():
		x.sawBegin(r)
		return s, true
	case slices.Contains(x.user.Groups, authn.GroupMasters):
		x.sawBegin(r)
		return nil, true
	}
	x.sawRejection(r)
	x.Header().Set("Retry-After", "1")
	http.Error(x, "Too many requests, please try again later.", http.StatusTooManyRequests)
	return nil, false
}

func limitOf(asked, standard int) int64 {
	if asked == 0 {
		return int64(standard)
	}
	return int64(asked)
}
