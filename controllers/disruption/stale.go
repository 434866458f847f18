package disruption

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/controllers"
	"github.com/keelson-dev/keelson/controllers/internal/pods"
	"github.com/keelson-dev/keelson/informer"
)

// staleAfter is how long a pod may be a disruption target without being deleted.
const staleAfter = 2 * time.Minute

// StaleTargets is the part of the disruption-controller that sets the condition DisruptionTarget of pods back to False
// if, after two minutes, they still exist and are not being deleted. Make one with NewStaleTargets.
type StaleTargets struct {
	pods   *informer.Informer[*corev1.Pod]
	client client.Updater
}

var _ controllers.Controller = (*StaleTargets)(nil)

// NewStaleTargets makes the controller, which updates the status of pods.
func NewStaleTargets(pods *informer.Informer[*corev1.Pod], c client.Updater) *StaleTargets {
	return &StaleTargets{pods: pods, client: c}
}

// Name is "stale-pod-disruption", upstream's name of the queue.
func (*StaleTargets) Name() string { return "stale-pod-disruption" }

// Watch enqueues targets for the time when their condition becomes stale.
func (s *StaleTargets) Watch(q controllers.Queue) []controllers.Synced {
	changed := func(pod *corev1.Pod) {
		if left, ok := untilStale(pod, time.Now()); ok {
			q.AddAfter(controllers.KeyOf(pod), left)
		}
	}
	s.pods.AddHandler(informer.Handler[*corev1.Pod]{
		Added:   changed,
		Updated: func(_, pod *corev1.Pod) { changed(pod) },
	})
	return []controllers.Synced{s.pods}
}

// Reconcile resets the condition of one pod if it is stale.
func (s *StaleTargets) Reconcile(ctx context.Context, key controllers.Key) (controllers.Result, error) {
	pod, ok := s.pods.Get(key.Namespace, key.Name)
	if !ok {
		return controllers.Result{}, nil
	}
	now := time.Now()
	left, ok := untilStale(pod, now)
	if !ok || left > 0 {
		return controllers.Result{RequeueAfter: left}, nil
	}
	pod = pod.DeepCopy()
	*pods.Condition(pod, corev1.DisruptionTarget) = corev1.PodCondition{
		Type: corev1.DisruptionTarget, Status: corev1.ConditionFalse,
		ObservedGeneration: pod.Generation, LastTransitionTime: metav1.NewTime(now),
	}
	at := pods.Kind().Target(pod.Namespace, pod.Name)
	at.Subresource = "status"
	_, err := s.client.Update(ctx, at, pod, metav1.UpdateOptions{})
	return controllers.Result{}, err
}

// untilStale returns how long until the pod's condition is stale, or false for a pod that is not a target. A kubelet
// may take any time to carry out a termination that it decided on: its conditions do not become stale. Neither do those
// of pods that have ended.
func untilStale(pod *corev1.Pod, now time.Time) (time.Duration, bool) {
	target := pods.Condition(pod, corev1.DisruptionTarget)
	if target == nil || target.Status != corev1.ConditionTrue || target.Reason == corev1.PodReasonTerminationByKubelet ||
		pod.DeletionTimestamp != nil || pods.Terminal(pod) {
		return 0, false
	}
	return max(target.LastTransitionTime.Add(staleAfter).Sub(now), 0), true
}
