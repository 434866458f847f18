package scheduler

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/events"
	"github.com/keelson-dev/keelson/scheduler/internal/retry"
)

// maxNote is the API's limit for the text of an event.
const maxNote = 1024

// writes are the writing goroutines: a bounded number at a time, and one after the other for the same pod, so
// that the report of a failed attempt never comes after that of a better one.
type writes struct {
	slots    chan struct{}
	preBinds chan struct{} // a slot per running PreBinder
	all      sync.WaitGroup

	mu   sync.Mutex
	last map[types.UID]chan struct{} // closed when a pod's latest write has returned
}

func newWrites(o Options) *writes {
	return &writes{
		slots: make(chan struct{}, o.Writes), preBinds: make(chan struct{}, o.PreBinds),
		last: map[types.UID]chan struct{}{},
	}
}

// take takes one of the slots, and reports whether it did before the context ended.
func (w *writes) take(ctx context.Context, places chan struct{}) bool {
	select {
	case places <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

// start runs f in a goroutine when there is a slot for it, and reports whether it does: not if the context has
// ended.
func (w *writes) start(ctx context.Context, pod types.UID, f func()) bool {
	if !w.take(ctx, w.slots) {
		return false
	}
	w.following(pod, func(before <-chan struct{}) {
		select {
		case <-before:
		default: // the previous write may need the slot to return
			<-w.slots
			<-before
			w.slots <- struct{}{}
		}
		f()
		<-w.slots
	})
	return true
}

// startAfter runs first in a goroutine, and then f, with the result of first, when there is a slot for it or
// the context has ended.
func (w *writes) startAfter(ctx context.Context, pod types.UID, first func() error, f func(error)) {
	w.following(pod, func(before <-chan struct{}) {
		<-before
		err := first()
		if w.take(ctx, w.slots) {
			defer func() { <-w.slots }()
		}
		f(err)
	})
}

// following runs f in a goroutine, with a channel that is closed when the pod's previous f has returned.
func (w *writes) following(pod types.UID, f func(before <-chan struct{})) {
	w.mu.Lock()
	before, done := w.last[pod], make(chan struct{})
	if before == nil {
		before = make(chan struct{})
		close(before)
	}
	w.last[pod] = done
	w.mu.Unlock()
	w.all.Go(func() {
		f(before)
		w.mu.Lock()
		if w.last[pod] == done {
			delete(w.last, pod)
		}
		w.mu.Unlock()
		close(done)
	})
}

// report reports, in an event and in the pod's status, why the pod has no node, and its nomination; nil keeps
// the pod's own.
func (s *Scheduler) report(ctx context.Context, pod *corev1.Pod, cause error, n *Nomination) {
	message := cause.Error()
	note := message
	if len(note) > maxNote {
		const more = " ..."
		note = note[:maxNote-len(more)] + more
	}
	s.record(pod, corev1.EventTypeWarning, "FailedScheduling", "Scheduling", note)

	reason := corev1.PodReasonSchedulerError
	var fit *FitError
	var refused *Refusal
	if errors.As(cause, &fit) || errors.Is(cause, ErrNoNodes) || errors.As(cause, &refused) && refused.Err == nil {
		reason = corev1.PodReasonUnschedulable
	}
	status := map[string]any{}
	if c := condition(pod, reason, message, time.Now()); c != nil {
		status["conditions"] = []corev1.PodCondition{*c}
	}
	nominate(status, pod, n)
	s.patch(ctx, pod, status)
}

// expect reports the future node of a pod that is not bound at once.
func (s *Scheduler) expect(ctx context.Context, b *binding) {
	status := map[string]any{}
	nominate(status, b.pod, &Nomination{b.node})
	s.patch(ctx, b.pod, status)
	b.nominated = true
}

// patch patches a pod's status, if there is anything to change.
func (s *Scheduler) patch(ctx context.Context, pod *corev1.Pod, status map[string]any) {
	if len(status) == 0 {
		return
	}
	data, err := json.Marshal(map[string]any{"status": status})
	if err == nil {
		again := func(err error) bool { return retry.Unwell(err) || apierrors.IsConflict(err) }
		err = retry.Do(ctx, again, func() error {
			_, err := s.write.Patch(ctx, client.Target{
				Resource:  corev1.SchemeGroupVersion.WithResource("pods"),
				Namespace: pod.Namespace, Name: pod.Name, Subresource: "status",
			}, client.Patch{Type: types.StrategicMergePatchType, Data: data}, metav1.PatchOptions{})
			return err
		})
	}
	if err != nil && ctx.Err() == nil {
		s.o.Logger.Error("updating a pod's status failed", "pod", nameOf(pod), "err", err)
	}
}

// nominate sets or clears the nominated node, unless the pod has it already.
func nominate(status map[string]any, pod *corev1.Pod, n *Nomination) {
	switch {
	case n == nil || n.Node == pod.Status.NominatedNodeName:
	case n.Node == "":
		status["nominatedNodeName"] = nil
	default:
		status["nominatedNodeName"] = n.Node
	}
}

// condition returns a false PodScheduled condition, or nil if the pod has it already.
func condition(pod *corev1.Pod, reason, message string, now time.Time) *corev1.PodCondition {
	c := corev1.PodCondition{
		Type: corev1.PodScheduled, ObservedGeneration: pod.Generation, Status: corev1.ConditionFalse,
		LastTransitionTime: metav1.NewTime(now), Reason: reason, Message: message,
	}
	for _, old := range pod.Status.Conditions {
		if old.Type != corev1.PodScheduled {
			continue
		}
		if old.Status == c.Status {
			c.LastTransitionTime = old.LastTransitionTime
			if old.Reason == reason && old.Message == message && old.LastProbeTime.IsZero() {
				return nil
			}
		}
		break
	}
	return &c
}

// record records an event about a pod.
func (s *Scheduler) record(pod *corev1.Pod, kind, reason, action, message string) {
	s.events.Record(events.Event{
		Regarding: corev1.ObjectReference{
			APIVersion: "v1", Kind: "Pod", Namespace: pod.Namespace, Name: pod.Name,
			UID: pod.UID, ResourceVersion: pod.ResourceVersion,
		},
		Type: kind, Reason: reason, Action: action, Message: message,
	})
}
