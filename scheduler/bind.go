package scheduler

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/scheduler/queue"
)

// removed is the message for a pod that was deleted while it waited for its permits.
const removed = "removed"

// binding is a pod between its decision and its binding.
type binding struct {
	item *queue.Item
	pod  *corev1.Pod
	node string

	undo       []func() // of the reservations, in order
	permits    []permit
	preBinders []PreBinder             // those with something to do
	gone       chan struct{}           // closed when the pod goes while it waits; see cancelWait
	waits      bool                    // for its permits; guarded by the scheduler's mu
	stop       context.CancelCauseFunc // ends its PreBinders, if it has any; guarded by the scheduler's mu
	// preempted is why the pod does not get its node although no plugin refused it, settled that it is too late
	// for that; guarded by the scheduler's mu.
	preempted error
	settled   bool
	// nominated means that the pod's status names the node.
	nominated bool
	// helped are events since the decision that may help the pod in case the named plugin refuses it; guarded
	// by the scheduler's mu.
	helped map[string]Event
}

// reserve calls the Reservers and the Permitters.
func (s *Scheduler) reserve(ctx context.Context, b *binding) error {
	for _, r := range s.of(b.pod).plugins.reservers {
		if skips(r, b.pod) {
			continue
		}
		undo, err := r.Reserve(ctx, b.pod, b.node)
		if err := b.stopped("Reserve", r, err); err != nil {
			return err
		}
		if undo != nil {
			b.undo = append(b.undo, undo)
		}
	}
	for _, p := range s.of(b.pod).plugins.permitters {
		wait, err := p.Permit(ctx, b.pod, b.node)
		if err := b.stopped("Permit", p, err); err != nil {
			return err
		}
		if wait != nil {
			b.permits = append(b.permits, permit{p.Name(), wait})
		}
	}
	return nil
}

// stopped turns the error of a plugin that may refuse the pod into the error of the attempt.
func (b *binding) stopped(point string, p Plugin, err error) error {
	r, err := refusal(err)
	switch {
	case err != nil:
		return fmt.Errorf("running %s plugin %q: %w", point, p.Name(), err)
	case r != nil:
		return b.refused(p.Name(), r)
	}
	return nil
}

// refused returns upstream's error for a plugin that refuses the chosen node.
func (b *binding) refused(by string, r *Refusal) *FitError {
	f := &FitError{Pod: b.pod, Nodes: 1, Reasons: map[string]int{}}
	for _, reason := range r.Reasons {
		f.Reasons[reason]++
	}
	if by != "" {
		f.RefusedBy = []string{by}
	}
	return f
}

// prepare does what may take long: it waits for the permits and runs the PreBinders, these with a context of their own.
func (s *Scheduler) prepare(ctx, preBind context.Context, b *binding, w *writes) error {
	if w.take(ctx, w.slots) {
		s.expect(ctx, b)
		<-w.slots
	}
	if len(b.permits) > 0 {
		by, r, err := await(ctx, b.permits, b.gone)
		var preempted error
		s.locked(func(time.Time) { b.waits, preempted = false, b.preempted })
		switch {
		case err != nil:
			return err
		case preempted != nil:
			return fmt.Errorf("waiting on permit for pod: %w", preempted)
		case r != nil:
			return b.refused(by, r)
		}
	}
	if err := b.preBind(preBind, w); err != nil {
		return err
	}
	var preempted error
	s.locked(func(time.Time) { b.settled, preempted = true, b.preempted })
	return preempted
}

// preBind calls the PreBinders.
func (b *binding) preBind(ctx context.Context, w *writes) error {
	if len(b.preBinders) == 0 {
		return nil
	}
	if !w.take(ctx, w.preBinds) {
		return context.Cause(ctx)
	}
	defer func() { <-w.preBinds }()
	for _, p := range b.preBinders {
		err := p.PreBind(ctx, b.pod, b.node)
		if _, failure := refusal(err); errors.Is(failure, context.Canceled) && ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		if err := failed("PreBind", p, err); err != nil {
			return err
		}
	}
	return nil
}

// failed turns the error of a PreBinder or Binder into the error of the attempt.
func failed(point string, p Plugin, err error) error {
	r, err := refusal(err)
	_, elsewhere := p.(Winnower)
	switch {
	case err != nil && elsewhere:
		return err // upstream reports the words of extenders alone
	case err != nil:
		return fmt.Errorf("running %s plugin %q: %w", point, p.Name(), err)
	case r != nil:
		return r
	}
	return nil
}

// bind binds the pod and records the event.
func (s *Scheduler) bind(ctx context.Context, b *binding) error {
	err := fmt.Errorf("running Bind plugins: %w", ErrDeclined)
	for _, binder := range s.of(b.pod).plugins.binders {
		if e := binder.Bind(ctx, b.pod, b.node); !errors.Is(e, ErrDeclined) {
			err = failed("Bind", binder, e)
			break
		}
	}
	if err != nil {
		return err
	}
	s.record(b.pod, corev1.EventTypeNormal, "Scheduled", "Binding",
		fmt.Sprintf("Successfully assigned %v/%v to %v", b.pod.Namespace, b.pod.Name, b.node))
	for _, p := range s.of(b.pod).plugins.postBinders {
		p.PostBind(ctx, b.pod, b.node)
	}
	return nil
}

// bindLater carries out the binding without blocking other pods.
func (s *Scheduler) bindLater(ctx context.Context, b *binding, w *writes) {
	finish := func(err error) {
		if err == nil {
			err = s.bind(ctx, b)
		}
		if err == nil {
			s.bound(b)
			return
		}
		if ctx.Err() != nil {
			b.unreserve()
			return
		}
		s.o.Logger.Error("binding a pod failed", "pod", nameOf(b.pod), "node", b.node, "err", err)
		if latest := s.abandon(b, err, true); latest != nil {
			s.report(ctx, latest, err, &Nomination{})
		}
	}
	b.preBinders = s.of(b.pod).plugins.preparing(b.pod, b.node)
	if len(b.permits)+len(b.preBinders) == 0 {
		if !w.start(ctx, b.pod.UID, func() { finish(nil) }) {
			b.unreserve()
		}
		return
	}
	preBind, stop := context.WithCancelCause(ctx)
	s.locked(func(time.Time) {
		s.bindings[b.pod.UID] = b
		b.waits, b.gone, b.stop = len(b.permits) > 0, make(chan struct{}), stop
		if s.assumed[b.pod.UID] == nil { // it went while it was reserved for
			b.cancelWait()
			b.cancel()
		}
	})
	w.startAfter(ctx, b.pod.UID, func() error {
		defer stop(nil)
		return s.prepare(ctx, preBind, b, w)
	}, finish)
}

// bound records that the pod is bound.
func (s *Scheduler) bound(b *binding) {
	if b.stop != nil || s.of(b.pod).plugins.reserving(b.pod) {
		s.locked(func(time.Time) { delete(s.bindings, b.pod.UID) })
	}
}

// cancel ends the PreBinders of a pod that has gone. The caller holds the scheduler's mu.
func (b *binding) cancel() {
	if b != nil && b.stop != nil {
		b.stop(nil)
	}
}

// cancelWait ends a pod's wait for permits because the pod is to go, and reports whether it waited: then
// abandon cleans up. The caller holds the scheduler's mu.
func (b *binding) cancelWait() bool {
	if b == nil || !b.waits {
		return false
	}
	b.waits = false
	close(b.gone)
	return true
}

// unreserve undoes the reservations.
func (b *binding) unreserve() {
	for _, undo := range slices.Backward(b.undo) {
		undo()
	}
	b.undo = nil
}

// abandon undoes everything for a pod that does not get its node, and has it retried. It returns the pod's
// latest state, or nil if the pod is gone, or has a node nonetheless. With tell, other pods may be retried for
// the room.
func (s *Scheduler) abandon(b *binding, cause error, tell bool) (latest *corev1.Pod) {
	b.unreserve()
	s.locked(func(now time.Time) {
		delete(s.bindings, b.pod.UID)
		s.forget(b.pod.UID, now, tell)
		if latest = s.pending[nameOf(b.pod)]; latest == nil || latest.UID != b.pod.UID {
			latest = nil
			return
		}
		by := refusedBy(cause)
		s.queue.Return(b.item, latest, by, now)
		for _, name := range by {
			if e, ok := b.helped[name]; ok {
				s.queue.Update(latest, e, now)
			}
		}
	})
	if latest != nil && b.nominated && latest.Status.NominatedNodeName == "" {
		c := *latest // its nomination has not been seen yet, but must be removed
		c.Status.NominatedNodeName = b.node
		latest = &c
	}
	return latest
}

// noteEvent records an event that may help a pod in case it is refused before its binding.
func (s *Scheduler) noteEvent(b *binding, e Event) {
	note := func(p Plugin) {
		if s.of(b.pod).profile.MayHelp(b.pod, []string{p.Name()}, e) {
			if b.helped == nil {
				b.helped = map[string]Event{}
			}
			b.helped[p.Name()] = e
		}
	}
	for _, p := range s.of(b.pod).plugins.reservers {
		if !skips(p, b.pod) {
			note(p)
		}
	}
	for _, p := range s.of(b.pod).plugins.permitters {
		note(p)
	}
}
