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

	// later are the evictions to start when no pod can be tried any more, one after the other: earlier is closed when
	// the latest has ended. Both are used by Run alone.
	later   []func()
	earlier chan struct{}

	mu   sync.Mutex
	last map[types.UID]chan struct{} // closed when a pod's latest write has returned
}

func newWrites(o Options) *writes {
	w := &writes{
		earlier: make(chan struct{}),
		slots:   make(chan struct{}, o.Writes), preBinds: make(chan struct{}, o.PreBinds),
		last: map[types.UID]chan struct{}{},
	}
	close(w.earlier)
	return w
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

// evict calls start, now or by startEvictions. What it starts waits for earlier and calls done in the end.
func (w *writes) evict(later bool, start func(earlier <-chan struct{}, done func())) {
	f := func() {
		earlier, done := w.earlier, make(chan struct{})
		if later {
			w.earlier = done
		}
		start(earlier, func() { close(done) })
	}
	if later {
		w.later = append(w.later, f)
		return
	}
	f()
}

// startEvictions starts those that were to wait.
func (w *writes) startEvictions() {
	for _, start := range w.later {
		start()
	}
	w.later = nil
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
	if c := condition(pod, corev1.PodCondition{
		Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: reason, Message: message,
	}, time.Now()); c != nil {
		status["conditions"] = []corev1.PodCondition{*c}
	}
	nominate(status, pod, n)
	s.patch(ctx, pod, status)
}

// expect reports the future node of a pod that is not bound at once.
func (s *Scheduler) expect(ctx context.Context, b *binding) {
	status := map[string]any{}
	nominate(status, b.pod, &Nomination{Node: b.node})
	s.patch(ctx, b.pod, status)
	b.nominated = true
}

// patch patches a pod's status, if there is anything to change.
func (s *Scheduler) patch(ctx context.Context, pod *corev1.Pod, status map[string]any) {
	if len(status) == 0 {
		return
	}
	if err := s.patchObject(ctx, pod, map[string]any{"status": status}); err != nil && ctx.Err() == nil {
		s.o.Logger.Error("updating a pod's status failed", "pod", nameOf(pod), "err", err)
	}
}

// patchObject patches a pod's status by an object with a part of it.
func (s *Scheduler) patchObject(ctx context.Context, pod *corev1.Pod, part map[string]any) error {
	data, err := json.Marshal(part)
	if err != nil {
		return err
	}
	again := func(err error) bool { return retry.Unwell(err) || apierrors.IsConflict(err) }
	return retry.Do(ctx, again, func() error {
		_, err := s.write.Patch(ctx, client.Target{
			Resource:  corev1.SchemeGroupVersion.WithResource("pods"),
			Namespace: pod.Namespace, Name: pod.Name, Subresource: "status",
		}, client.Patch{Type: types.StrategicMergePatchType, Data: data}, metav1.PatchOptions{})
		return err
	})
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

// condition returns a condition as the pod is to have it from now on, or nil if it has it already.
func condition(pod *corev1.Pod, c corev1.PodCondition, now time.Time) *corev1.PodCondition {
	c.ObservedGeneration, c.LastTransitionTime = pod.Generation, metav1.NewTime(now)
	for _, old := range pod.Status.Conditions {
		if old.Type != c.Type {
			continue
		}
		if old.Status == c.Status {
			c.LastTransitionTime = old.LastTransitionTime
			if old.Reason == c.Reason && old.Message == c.Message && old.LastProbeTime.IsZero() {
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
		Regarding: reference(pod), Type: kind, Reason: reason, Action: action, Message: message, Reporter: s.reporter(pod),
	})
}

// reporter returns the scheduler name of a pod of further profiles; those of New's have the recorder's own.
func (s *Scheduler) reporter(pod *corev1.Pod) string {
	if s.of(pod) == s.profiles.first {
		return ""
	}
	return pod.Spec.SchedulerName
}

func reference(pod *corev1.Pod) corev1.ObjectReference {
	return corev1.ObjectReference{
		APIVersion: "v1", Kind: "Pod", Namespace: pod.Namespace, Name: pod.Name,
		UID: pod.UID, ResourceVersion: pod.ResourceVersion,
	}
}
