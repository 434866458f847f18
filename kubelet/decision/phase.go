package decision

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/podspec/restart"
)

// tally counts a pod's containers by state, as the phase rules see them.
type tally struct {
	pendingInit, pendingSidecar, failedInitForGood int
	running, waiting                               int // those in an unknown state do not count as running
	stopped, stoppedForGood, succeeded             int
}

// phaseOf derives the phase from the container statuses. over means that nothing will start any more, initialized that
// regular containers exist in the sandbox in use.
func phaseOf(pod *corev1.Pod, status corev1.PodStatus, over, initialized bool) corev1.PodPhase {
	var t tally
	for i := range pod.Spec.InitContainers {
		t.countInit(pod, &pod.Spec.InitContainers[i], status.InitContainerStatuses)
	}
	for i := range pod.Spec.Containers {
		t.count(pod, &pod.Spec.Containers[i], status.ContainerStatuses)
	}
	switch {
	case t.failedInitForGood > 0:
		return corev1.PodFailed
	case t.pendingInit > 0, t.pendingSidecar > 0 && !initialized, t.waiting > 0:
		return corev1.PodPending
	case t.running > 0:
		return corev1.PodRunning
	case t.stopped > 0:
		if !over && t.stopped != t.stoppedForGood {
			return corev1.PodRunning // some are about to restart
		}
		if t.stopped == t.succeeded {
			return corev1.PodSucceeded
		}
		return corev1.PodFailed
	}
	return corev1.PodPending
}

// ending returns the last termination of a container that is not running, or nil if it never ran.
func ending(s *corev1.ContainerStatus) *corev1.ContainerStateTerminated {
	if s.State.Terminated != nil {
		return s.State.Terminated
	}
	if s.State.Waiting != nil {
		return s.LastTerminationState.Terminated
	}
	return nil
}

func (t *tally) countInit(pod *corev1.Pod, c *corev1.Container, list []corev1.ContainerStatus) {
	s := findStatus(list, c.Name)
	if restart.Sidecar(c) {
		t.countSidecar(s)
		return
	}
	if s == nil || ending(s) == nil {
		t.pendingInit++
		return
	}
	if code := ending(s).ExitCode; code != 0 && !restart.After(&pod.Spec, c, code) {
		t.failedInitForGood++
	}
}

func (t *tally) countSidecar(s *corev1.ContainerStatus) {
	switch {
	case s == nil:
		t.waiting++
	case s.State.Running != nil:
		if s.Started == nil || !*s.Started {
			t.pendingSidecar++
		}
		t.running++
	case ending(s) == nil:
		t.waiting++
	}
}

func (t *tally) count(pod *corev1.Pod, c *corev1.Container, list []corev1.ContainerStatus) {
	s := findStatus(list, c.Name)
	switch {
	case s == nil:
		t.waiting++
	case s.State.Running != nil:
		t.running++
	case ending(s) != nil:
		t.stopped++
		code := ending(s).ExitCode
		if !restart.After(&pod.Spec, c, code) {
			t.stoppedForGood++
		}
		if s.State.Terminated != nil && code == 0 {
			t.succeeded++
		}
	default:
		t.waiting++
	}
}
