package scheduler

import (
	"context"
	"errors"
	"strings"
)

// Preemptor is called when no node can take a pod, and may make room: by removing pods of lower priority, or by
// creating a node ("PostFilter" upstream).
//
// Preemptors are called in the profile's order, in the goroutine of Scheduler.Run, if predicates refused the
// pod on all nodes, but not if there are no nodes or a predicate failed. The next pod waits meanwhile, so a
// preemptor should do slow work in a goroutine of its own.
type Preemptor interface {
	Plugin
	// Preempt looks for room for the pod of a decision, which says for each node of the snapshot who refused
	// it, why, and whether removing pods might help. It must change neither; Snapshot.State serves for what-if
	// questions.
	//
	// The nomination becomes the pod's; nil keeps the pod's own. Without an error no other preemptor is called.
	// A *Refusal as the error means that no room can be made; its reasons follow those of the predicates in the
	// message, and the next preemptor is called unless the refusal is Unresolvable. The last nomination that is
	// not nil counts. Any other error is reported in the same place, ends the calls and nominates nothing. In
	// any case, the pod then waits for an event that helps: a nomination alone does not cause a retry.
	Preempt(ctx context.Context, d Decision, s *Snapshot) (*Nomination, error)
}

// Nomination is where a pod is expected to go once there is room. The scheduler writes it to
// status.nominatedNodeName, counts the pod as being on that node when it places pods of no higher priority, and
// tries that node first at the pod's next attempt.
type Nomination struct {
	// Node is the name of the node; empty removes the pod's nomination.
	Node string
}

// PreemptorFunc returns a Preemptor that calls a function.
func PreemptorFunc(name string, preempt func(ctx context.Context, d Decision, s *Snapshot) (*Nomination, error)) Preemptor {
	return preemptorFunc{name, preempt}
}

type preemptorFunc struct {
	name    string
	preempt func(context.Context, Decision, *Snapshot) (*Nomination, error)
}

func (f preemptorFunc) Name() string { return f.name }

func (f preemptorFunc) Preempt(ctx context.Context, d Decision, s *Snapshot) (*Nomination, error) {
	return f.preempt(ctx, d, s)
}

// preempt calls the preemptors and returns the pod's nomination and the message about it.
func (f *followers) preempt(ctx context.Context, d Decision, s *Snapshot) (nomination *Nomination, message string) {
	var reasons []string
	for _, p := range f.preemptors {
		n, err := p.Preempt(ctx, d, s)
		refusal, err := refusal(err)
		switch {
		case err != nil:
			return nil, err.Error()
		case refusal == nil:
			return n, ""
		case refusal.Unresolvable:
			return n, refusal.Error()
		case n != nil:
			nomination = n
		}
		reasons = append(reasons, refusal.Reasons...)
	}
	return nomination, strings.Join(reasons, ", ")
}

// preemptible reports whether preemptors are called after an attempt that ended with err.
func preemptible(err error) (*FitError, bool) {
	var fit *FitError
	ok := errors.As(err, &fit)
	return fit, ok
}
