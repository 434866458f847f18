package kubelet

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// tally counts a pod's containers by what they do, as the phase rules see them.
type tally struct {
	pendingInit, pendingSidecar, failedInitForGood int
	unknown, running, waiting                      int
	stopped, stoppedForGood, succeeded             int
}

// phaseOf derives the phase from the container statuses. over says that nothing will start any
// more, initialized that regular containers exist in the sandbox in use.
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
	case t.running > 0 && t.unknown == 0:
		return corev1.PodRunning
	case t.stopped > 0 && t.unknown == 0:
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

func findStatus(list []corev1.ContainerStatus, name string) *corev1.ContainerStatus {
	for i := range list {
		if list[i].Name == name {
			return &list[i]
		}
	}
	return nil
}

// ending returns how a container that does not run ended last, or nil if it never ran.
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
	if isSidecar(c) {
		t.countSidecar(s)
		return
	}
	if s == nil || s.State.Running != nil || ending(s) == nil {
		t.pendingInit++
		return
	}
	if code := ending(s).ExitCode; code != 0 && !mayRestart(pod, c, code) {
		t.failedInitForGood++
	}
}

func (t *tally) countSidecar(s *corev1.ContainerStatus) {
	switch {
	case s == nil:
		t.unknown++
	case s.State.Running != nil:
		if s.Started == nil || !*s.Started {
			t.pendingSidecar++
		}
		t.running++
	case ending(s) != nil:
	case s.State.Waiting != nil:
		t.pendingSidecar++
		t.waiting++
	default:
		t.pendingSidecar++
		t.unknown++
	}
}

func (t *tally) count(pod *corev1.Pod, c *corev1.Container, list []corev1.ContainerStatus) {
	s := findStatus(list, c.Name)
	switch {
	case s == nil:
		t.unknown++
	case s.State.Running != nil:
		t.running++
	case ending(s) != nil:
		t.stopped++
		code := ending(s).ExitCode
		if !mayRestart(pod, c, code) {
			t.stoppedForGood++
		}
		if s.State.Terminated != nil && code == 0 {
			t.succeeded++
		}
	case s.State.Waiting != nil:
		t.waiting++
	default:
		t.unknown++
	}
}

// qosClass is the class the API has given the pod, or else the one that follows from its
// containers' requests and limits of CPU and memory.
func qosClass(pod *corev1.Pod) corev1.PodQOSClass {
	if pod.Status.QOSClass != "" {
		return pod.Status.QOSClass
	}
	if r := pod.Spec.Resources; r != nil && len(r.Requests)+len(r.Limits) > 0 {
		return classOf(*r)
	}
	var class corev1.PodQOSClass
	for _, list := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for _, c := range list {
			switch one := classOf(c.Resources); {
			case one == corev1.PodQOSBurstable, class != "" && class != one:
				return corev1.PodQOSBurstable
			default:
				class = one
			}
		}
	}
	if class == "" {
		return corev1.PodQOSBestEffort
	}
	return class
}

func classOf(r corev1.ResourceRequirements) corev1.PodQOSClass {
	asked, equal := false, true
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		request, limit := r.Requests[name], r.Limits[name]
		if request.IsZero() && !limit.IsZero() {
			request = limit
		}
		asked = asked || !request.IsZero() || !limit.IsZero()
		equal = equal && !limit.IsZero() && sameQuantity(request, limit)
	}
	switch {
	case !asked:
		return corev1.PodQOSBestEffort
	case equal:
		return corev1.PodQOSGuaranteed
	default:
		return corev1.PodQOSBurstable
	}
}

func sameQuantity(a, b resource.Quantity) bool { return a.Cmp(b) == 0 }
