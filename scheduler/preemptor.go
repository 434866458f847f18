package scheduler

import (
	"context"
	"errors"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Preemptor is called when no node can take a pod, and may make room: by removing pods of lower priority, or by
// creating a node ("PostFilter" upstream).
//
// Preemptors are called in the profile's order, in the goroutine of Scheduler.Run, if predicates refused the
// pod on all nodes, but not if there are no nodes or a predicate failed. The next pod waits meanwhile, so a
// preemptor should do slow work in a goroutine of its own.
type Preemptor interface {
	Plugin
	// Preempt looks for room for the pod of a failed attempt. The attempt says for each node of its snapshot
	// why it was refused and whether removing pods might help, and whether it would take the pod with other
	// pods on it. It must not be kept.
	//
	// The nomination becomes the pod's, and the scheduler removes its victims; nil keeps the pod's own
	// nomination. Without an error no other preemptor is called. A *Refusal as the error means that no room can
	// be made; its reasons follow those of the predicates in the message, and the next preemptor is called
	// unless the refusal is Unresolvable. The last nomination that is not nil counts. Any other error is
	// reported in the same place, ends the calls and nominates nothing. In any case, the pod then waits for an
	// event that helps: a nomination alone does not cause a retry.
	Preempt(ctx context.Context, t *Trial) (*Nomination, error)
}

// Nomination is where a pod is expected to go once there is room. The scheduler writes it to
// status.nominatedNodeName, counts the pod as being on that node when it places pods of no higher priority, and
// tries that node first at the pod's next attempt.
type Nomination struct {
	// Node is the name of the node; empty removes the pod's nomination.
	Node string
	// Victims are the pods to remove from the node. The scheduler deletes them, after the nomination is written
	// and while other pods are scheduled; each gets the condition DisruptionTarget and the event Preempted. It
	// takes the node from those that are not bound yet, and leaves those alone that are being deleted already.
	// Pods of lower priority lose their nominations for this node. The nominated pod is not tried again before
	// all victims have gone or are on their way.
	Victims []*corev1.Pod
	// Message follows the predicates' reasons in the pod's message.
	Message string
}

// PreemptorFunc returns a Preemptor that calls a function.
func PreemptorFunc(name string, preempt func(ctx context.Context, t *Trial) (*Nomination, error)) Preemptor {
	return preemptorFunc{name, preempt}
}

type preemptorFunc struct {
	name    string
	preempt func(context.Context, *Trial) (*Nomination, error)
}

func (f preemptorFunc) Name() string { return f.name }

func (f preemptorFunc) Preempt(ctx context.Context, t *Trial) (*Nomination, error) {
	return f.preempt(ctx, t)
}

// Preempt calls the profile's preemptors for a failed attempt, as a Scheduler does, and returns the pod's nomination, nil if it
// keeps its own, and what follows the predicates' reasons in its message. It serves what-if questions: nothing is removed.
func (p *Profile) Preempt(ctx context.Context, t *Trial) (nomination *Nomination, message string) {
	f := followers{preemptors: of[Preemptor](p, RolePreemptor)}
	return f.preempt(ctx, t)
}

// preempt calls the preemptors and returns the pod's nomination and the message about it.
func (f *followers) preempt(ctx context.Context, t *Trial) (nomination *Nomination, message string) {
	var reasons []string
	for _, p := range f.preemptors {
		t.forPlugin(p.Name())
		n, err := p.Preempt(ctx, t)
		refusal, err := refusal(err)
		switch {
		case err != nil:
			return nil, err.Error()
		case refusal == nil && n == nil:
			return nil, ""
		case refusal == nil:
			return n, n.Message
		case refusal.Unresolvable:
			return withoutVictims(n), refusal.Error()
		case n != nil:
			nomination = withoutVictims(n)
		}
		reasons = append(reasons, refusal.Reasons...)
	}
	return nomination, strings.Join(reasons, ", ")
}

// withoutVictims returns the nomination of a preemptor that makes no room.
func withoutVictims(n *Nomination) *Nomination {
	if n == nil {
		return nil
	}
	return &Nomination{Node: n.Node}
}

// preemptible reports whether preemptors are called after an attempt that ended with err.
func preemptible(err error) (*FitError, bool) {
	var fit *FitError
	ok := errors.As(err, &fit)
	return fit, ok
}
