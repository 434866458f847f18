// Package flowcontroltest has the suite that every flowcontrol.Limiter passes.
package flowcontroltest

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/keelson-dev/keelson/authn"
	"github.com/keelson-dev/keelson/authz"
	"github.com/keelson-dev/keelson/flowcontrol"
)

// Suite is about one kind of Limiter. It runs in bubbles of testing/synctest.
type Suite struct {
	// New returns a Limiter that serves some requests at once, of a user of system:authenticated, but not all of Flood.
	New func() flowcontrol.Limiter
	// Flood is how many requests are made at once.
	Flood int
}

func ann() authz.Attributes {
	return authz.Attributes{
		User: &authn.Identity{Name: "ann", Groups: []string{"system:authenticated"}}, Verb: "get", Path: "/x",
	}
}

// Run runs the suite.
func (s Suite) Run(t *testing.T) {
	t.Run("bounded", func(t *testing.T) { synctest.Test(t, s.bounded) })
	t.Run("cancelled", func(t *testing.T) { synctest.Test(t, s.cancelled) })
	t.Run("exempt", func(t *testing.T) { synctest.Test(t, s.exempt) })
}

// bounded: some are served at once, the others later or not at all, which is a Rejection; afterwards there is room again.
func (s Suite) bounded(t *testing.T) {
	l := s.New()
	var mu sync.Mutex
	now, most, served, rejected := 0, 0, 0, 0
	var all sync.WaitGroup
	for range s.Flood {
		all.Go(func() {
			ticket, err := l.Wait(t.Context(), ann())
			mu.Lock()
			defer mu.Unlock()
			var r *flowcontrol.Rejection
			switch {
			case errors.As(err, &r):
				rejected++
				check(t, r.Class)
				if r.Reason == "" || r.RetryAfter <= 0 {
					t.Errorf("%+v", r)
				}
				return
			case err != nil:
				t.Errorf("an error that is no rejection: %v", err)
				return
			}
			check(t, ticket.Class)
			now++
			served++
			most = max(most, now)
			mu.Unlock()
			time.Sleep(time.Millisecond)
			mu.Lock()
			now--
			ticket.Done()
		})
	}
	all.Wait()
	if most == 0 || most == s.Flood || served+rejected != s.Flood {
		t.Errorf("of %d requests %d were served, at most %d at once, and %d rejected", s.Flood, served, most, rejected)
	}
	ticket, err := l.Wait(t.Context(), ann())
	if err != nil {
		t.Errorf("afterwards: %v", err)
	}
	ticket.Done()
}

func check(t *testing.T, c flowcontrol.Class) {
	t.Helper()
	if c.Schema == nil || c.Level == nil || c.Schema.Spec.PriorityLevelConfiguration.Name != c.Level.Name {
		t.Errorf("%+v", c)
	}
}

// cancelled: who does not wait any longer is told so.
func (s Suite) cancelled(t *testing.T) {
	l := s.New()
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	var mu sync.Mutex
	var tickets []flowcontrol.Ticket
	for range s.Flood {
		all.Go(func() {
			ticket, err := l.Wait(ctx, ann())
			if err == nil {
				mu.Lock()
				tickets = append(tickets, ticket)
				mu.Unlock()
			}
		})
	}
	synctest.Wait()
	cancel()
	all.Wait()
	for _, ticket := range tickets {
		ticket.Done()
	}
	ticket, err := l.Wait(t.Context(), ann())
	if err != nil {
		t.Errorf("afterwards: %v", err)
	}
	ticket.Done()
}

// exempt: masters never wait.
func (s Suite) exempt(t *testing.T) {
	l := s.New()
	root := ann()
	root.User.Groups = append(root.User.Groups, authn.GroupMasters)
	var tickets []flowcontrol.Ticket
	for range s.Flood {
		ticket, err := l.Wait(t.Context(), root)
		if err != nil {
			t.Fatal(err)
		}
		check(t, ticket.Class)
		tickets = append(tickets, ticket)
	}
	for _, ticket := range tickets {
		ticket.Done()
	}
}
