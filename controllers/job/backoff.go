package job

import (
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/controllers"
	"github.com/keelson-dev/keelson/controllers/internal/pods"
	"github.com/keelson-dev/keelson/podspec/restart"
)

// The first pod that fails is replaced after firstDelay; each further failure in a row doubles the delay.
const (
	firstDelay   = 10 * time.Second
	longestDelay = 10 * time.Minute
)

// record is what delays the next pod of a job: how many have failed since the last success, and when the last one did.
type record struct {
	failures int32
	last     time.Time
}

// after returns the record once these pods, not counted before, have succeeded and failed.
func (r record) after(succeeded, failed []*corev1.Pod) record {
	var success time.Time
	for _, pod := range succeeded {
		success = later(success, finishedAt(pod))
	}
	if len(succeeded) > 0 {
		r = record{}
		failed = slices.DeleteFunc(slices.Clone(failed), func(pod *corev1.Pod) bool { return !finishedAt(pod).After(success) })
	}
	if len(failed) == 0 {
		return r
	}
	r.failures += int32(len(failed))
	r.last = time.Time{}
	for _, pod := range failed {
		r.last = later(r.last, finishedAt(pod))
	}
	return r
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// wait returns how much longer to wait before another pod is created.
func (r record) wait(now time.Time) time.Duration {
	if r.failures == 0 {
		return 0
	}
	delay := firstDelay
	for i := int32(1); i < r.failures && delay < longestDelay; i++ {
		delay = min(2*delay, longestDelay)
	}
	return max(0, delay-now.Sub(r.last))
}

// waitForIndex is how much longer to wait before the last failed pod of an index, which may be nil, is replaced.
func waitForIndex(failed *corev1.Pod, now time.Time) time.Duration {
	if failed == nil {
		return 0
	}
	counted, ignored := failures(failed)
	return record{failures: counted + ignored + 1, last: finishedAt(failed)}.wait(now)
}

// finishedAt returns when a pod ended: when the last of its containers did. Of pods whose kubelet does not say, it is
// when they ceased to be ready, when their deletion began, or at least when they were created.
func finishedAt(pod *corev1.Pod) time.Time {
	sidecars := map[string]bool{}
	for i := range pod.Spec.InitContainers {
		if c := &pod.Spec.InitContainers[i]; restart.Sidecar(c) {
			sidecars[c.Name] = true
		}
	}
	// Sidecars end after the containers. If there are containers still running, the end of the sidecars tells, as upstream
	// has it.
	at, _ := lastEnd(pod.Status.ContainerStatuses, nil)
	if end, all := lastEnd(pod.Status.InitContainerStatuses, sidecars); all {
		if at = later(at, end); !at.IsZero() {
			return at
		}
	}
	if c := pods.Condition(pod, corev1.PodReady); c != nil && c.Status == corev1.ConditionFalse && !c.LastTransitionTime.IsZero() {
		return c.LastTransitionTime.Time
	}
	if pod.DeletionTimestamp != nil {
		grace := int64(0)
		if pod.DeletionGracePeriodSeconds != nil {
			grace = *pod.DeletionGracePeriodSeconds
		}
		return pod.DeletionTimestamp.Add(-time.Duration(grace) * time.Second)
	}
	return pod.CreationTimestamp.Time
}

// lastEnd returns when the last of the containers ended, of those named if names are given, and whether all have.
func lastEnd(list []corev1.ContainerStatus, names map[string]bool) (time.Time, bool) {
	var last time.Time
	for i := range list {
		if names != nil && !names[list[i].Name] {
			continue
		}
		end := list[i].State.Terminated
		if end == nil || end.FinishedAt.IsZero() {
			return time.Time{}, false
		}
		last = later(last, end.FinishedAt.Time)
	}
	return last, true
}

// records are those of all jobs. They are lost in a restart: failed pods are then replaced without delay.
type records struct {
	mu   sync.Mutex
	jobs map[controllers.Key]record
}

func (r *records) get(job controllers.Key) record {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.jobs[job]
}

func (r *records) set(job controllers.Key, to record) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.jobs[job] = to
}

func (r *records) forget(job controllers.Key) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.jobs, job)
}
