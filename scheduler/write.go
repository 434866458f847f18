package scheduler

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/events"
	"github.com/keelson-dev/keelson/internal/pause"
	"github.com/keelson-dev/keelson/scheduler/queue"
)

// maxNote is how long the API lets the text of an event be.
const maxNote = 1024

// writes are the goroutines that write: a bounded number at a time, and one after the other
// for the same pod, so that news of a failed attempt never come after those of a better one.
type writes struct {
	slots chan struct{}
	all   sync.WaitGroup

	mu   sync.Mutex
	last map[types.UID]chan struct{} // closed when a pod's latest write has returned
}

func newWrites(atOnce int) *writes {
	return &writes{slots: make(chan struct{}, atOnce), last: map[types.UID]chan struct{}{}}
}

// start runs f in a goroutine, when there is a slot for it.
func (w *writes) start(ctx context.Context, pod types.UID, f func()) {
	select {
	case w.slots <- struct{}{}:
	case <-ctx.Done():
		return
	}
	w.mu.Lock()
	before, done := w.last[pod], make(chan struct{})
	w.last[pod] = done
	w.mu.Unlock()
	w.all.Go(func() {
		if before != nil {
			<-before // it has a slot already
		}
		f()
		w.mu.Lock()
		if w.last[pod] == done {
			delete(w.last, pod)
		}
		w.mu.Unlock()
		close(done)
		<-w.slots
	})
}

// bind tells the server where the pod goes, and takes it all back when that fails.
func (s *Scheduler) bind(ctx context.Context, item *queue.Item, pod *corev1.Pod, node string) {
	err := retry(ctx, retriable, func() error {
		_, err := s.write.Create(ctx, target(pod, "binding"), &corev1.Binding{
			ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID},
			Target:     corev1.ObjectReference{Kind: "Node", Name: node},
		}, metav1.CreateOptions{})
		return err
	})
	if err == nil {
		s.record(pod, corev1.EventTypeNormal, "Scheduled", "Binding",
			fmt.Sprintf("Successfully assigned %v/%v to %v", pod.Namespace, pod.Name, node))
		return
	}
	if ctx.Err() != nil {
		return
	}
	err = fmt.Errorf("running Bind plugin %q: %w", "DefaultBinder", err)
	s.log.Error("binding a pod failed", "pod", nameOf(pod), "node", node, "err", err)
	latest := pod
	s.locked(func(now time.Time) {
		s.forget(pod.UID, now)
		// A pod that is gone, or got its node all the same, is not tried again.
		if latest = s.pending[nameOf(pod)]; latest != nil && latest.UID == pod.UID {
			s.queue.Return(item, latest, nil, now)
		} else {
			latest = nil
		}
	})
	if latest != nil {
		s.report(ctx, latest, err)
	}
}

// report tells people, in an event and in the pod's status, why the pod has no node.
func (s *Scheduler) report(ctx context.Context, pod *corev1.Pod, cause error) {
	message := cause.Error()
	note := message
	if len(note) > maxNote {
		const more = " ..."
		note = note[:maxNote-len(more)] + more
	}
	s.record(pod, corev1.EventTypeWarning, "FailedScheduling", "Scheduling", note)

	reason := corev1.PodReasonSchedulerError
	var fit *FitError
	if errors.As(cause, &fit) || errors.Is(cause, ErrNoNodes) {
		reason = corev1.PodReasonUnschedulable
	}
	patch, err := statusPatch(pod, reason, message, time.Now())
	if err == nil && patch != nil {
		err = retry(ctx, func(err error) bool { return retriable(err) || apierrors.IsConflict(err) }, func() error {
			_, err := s.write.Patch(ctx, target(pod, "status"),
				client.Patch{Type: types.StrategicMergePatchType, Data: patch}, metav1.PatchOptions{})
			return err
		})
	}
	if err != nil && ctx.Err() == nil {
		s.log.Error("updating a pod's status failed", "pod", nameOf(pod), "err", err)
	}
}

// statusPatch sets PodScheduled to false and clears a nominated node. It returns nil when the
// pod says so already.
func statusPatch(pod *corev1.Pod, reason, message string, now time.Time) ([]byte, error) {
	condition := corev1.PodCondition{
		Type: corev1.PodScheduled, ObservedGeneration: pod.Generation, Status: corev1.ConditionFalse,
		LastTransitionTime: metav1.NewTime(now), Reason: reason, Message: message,
	}
	known := false
	for _, old := range pod.Status.Conditions {
		if old.Type != corev1.PodScheduled {
			continue
		}
		if old.Status == condition.Status {
			condition.LastTransitionTime = old.LastTransitionTime
			known = old.Reason == reason && old.Message == message && old.LastProbeTime.IsZero()
		}
		break
	}
	status := map[string]any{}
	if !known {
		status["conditions"] = []corev1.PodCondition{condition}
	}
	if pod.Status.NominatedNodeName != "" {
		status["nominatedNodeName"] = nil
	}
	if len(status) == 0 {
		return nil, nil
	}
	return json.Marshal(map[string]any{"status": status})
}

// record tells an event about a pod.
func (s *Scheduler) record(pod *corev1.Pod, kind, reason, action, message string) {
	s.events.Record(events.Event{
		Regarding: corev1.ObjectReference{
			APIVersion: "v1", Kind: "Pod", Namespace: pod.Namespace, Name: pod.Name,
			UID: pod.UID, ResourceVersion: pod.ResourceVersion,
		},
		Type: kind, Reason: reason, Action: action, Message: message,
	})
}

func target(pod *corev1.Pod, subresource string) client.Target {
	return client.Target{
		Resource:  corev1.SchemeGroupVersion.WithResource("pods"),
		Namespace: pod.Namespace, Name: pod.Name, Subresource: subresource,
	}
}

// retriable errors are those of a server that is not well.
func retriable(err error) bool {
	return apierrors.IsInternalError(err) || apierrors.IsServiceUnavailable(err) || errors.Is(err, syscall.ECONNREFUSED)
}

// retry tries up to four times, after 10, 50 and 250 ms.
func retry(ctx context.Context, again func(error) bool, f func() error) error {
	wait := 10 * time.Millisecond
	for tries := 1; ; tries++ {
		err := f()
		if err == nil || tries == 4 || !again(err) {
			return err
		}
		_ = pause.For(ctx, wait)
		if ctx.Err() != nil {
			return err
		}
		wait *= 5
	}
}
