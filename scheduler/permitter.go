package scheduler

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// MaxWait is the longest time limit of a Wait.
const MaxWait = 15 * time.Minute

// Permitter makes the last decision before a pod is bound, and may delay it: until the rest of a gang has
// nodes, say ("Permit" upstream).
//
// Permitters are called in the profile's order, after all Reservers and like them in the goroutine of
// Scheduler.Run; they must be quick.
type Permitter interface {
	Plugin
	// Permit decides whether the pod, which is shared, may go to the node: it returns nil, nil if it may, or a
	// Wait of its own to decide later. All permitters are called before the pod waits for any; it goes on when
	// all have allowed it. A *Refusal as the error keeps the pod from the node, any other error fails the
	// attempt, both as with a Reserver.
	Permit(ctx context.Context, pod *corev1.Pod, node string) (*Wait, error)
}

// PermitterFunc returns a Permitter that calls a function.
func PermitterFunc(name string, permit func(ctx context.Context, pod *corev1.Pod, node string) (*Wait, error)) Permitter {
	return permitterFunc{name, permit}
}

type permitterFunc struct {
	name   string
	permit func(context.Context, *corev1.Pod, string) (*Wait, error)
}

func (f permitterFunc) Name() string { return f.name }

func (f permitterFunc) Permit(ctx context.Context, pod *corev1.Pod, node string) (*Wait, error) {
	return f.permit(ctx, pod, node)
}

// Wait is a pending permit for one pod. While it is open, the pod keeps its node and its reservations, other
// pods are scheduled, and its status.nominatedNodeName names its node. The permitter that made it keeps it and
// answers with Allow or Refuse, from any goroutine, even before the scheduler knows of it; the first answer
// counts. A Wait without an answer in time refuses the pod. It also ends with Run or the pod; a permitter that
// is also a Reserver notices that by its undo.
type Wait struct {
	limit time.Duration

	mu       sync.Mutex // guards the rest
	answered bool
	refusal  *Refusal
	notify   func(*Refusal)
}

// NewWait returns a wait with a time limit, at most MaxWait, which begins when all permitters have been called.
func NewWait(limit time.Duration) *Wait { return &Wait{limit: min(limit, MaxWait)} }

// Allow lets the pod go on, and reports whether this was the first answer.
func (w *Wait) Allow() bool { return w.answer(nil) }

// Refuse refuses the pod its node, for reasons as in a Refusal, and reports whether this was the first answer.
// The pod then waits for an event that may help, according to the permitter's Hinter.
func (w *Wait) Refuse(reasons ...string) bool { return w.answer(Refuse(reasons...)) }

func (w *Wait) answer(r *Refusal) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.answered {
		return false
	}
	w.answered, w.refusal = true, r
	if w.notify != nil {
		w.notify(r)
	}
	return true
}

// listen calls notify, which must not block, with the answer, at once if there is one already.
func (w *Wait) listen(notify func(*Refusal)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.notify = notify
	if w.answered {
		notify(w.refusal)
	}
}

// permit is a Wait and the plugin that made it.
type permit struct {
	plugin string
	wait   *Wait
}

// await returns when all have allowed the pod, with the first plugin that refused it and why, or when the pod
// is gone. The time limits begin now. When it returns, none of the permits is waiting any more.
func await(ctx context.Context, permits []permit, gone <-chan struct{}) (by string, r *Refusal, err error) {
	type answer struct {
		by string
		r  *Refusal
	}
	answers := make(chan answer, len(permits))
	for _, p := range permits {
		timer := time.AfterFunc(p.wait.limit, func() {
			p.wait.Refuse(fmt.Sprintf("rejected due to timeout after waiting %v at plugin %v", p.wait.limit, p.plugin))
		})
		defer func() {
			timer.Stop()
			p.wait.Refuse(removed)
		}()
		p.wait.listen(func(r *Refusal) { answers <- answer{p.plugin, r} })
	}
	for range permits {
		select {
		case a := <-answers:
			if a.r != nil {
				return a.by, a.r, nil
			}
		case <-gone:
			return "", Refuse(removed), nil
		case <-ctx.Done():
			return "", nil, ctx.Err()
		}
	}
	return "", nil, nil
}
