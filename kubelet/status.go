package kubelet

import (
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	resourcehelper "k8s.io/component-helpers/resource"
)

// Reasons that a kubelet gives in pod statuses.
const (
	reasonContainerCreating = "ContainerCreating"
	reasonPodInitializing   = "PodInitializing"
	reasonStatusUnknown     = "ContainerStatusUnknown"
	reasonDeadlineExceeded  = "DeadlineExceeded"
	messageDeadlineExceeded = "Pod was active on the node longer than the specified deadline"
)

// waiting says why a container that should run does not.
type waiting struct{ Reason, Message string }

// portrait is all that a pod's status is made from.
type portrait struct {
	pod      *corev1.Pod
	previous corev1.PodStatus // the status that this kubelet generated last, or the API's
	observed observation
	waiting  map[string]waiting // by container name
	evicted  *Eviction
	probes   func(containerID string, k probeKind) probeResult
	// ending is set once the pod is to end, over once nothing of it runs and nothing will.
	ending, over bool
	hostIPs      []string
	runtime      string // the name of the runtime in container ids
	now          time.Time
}

// generateStatus describes a pod for the API. It does not keep what it is given.
func generateStatus(p portrait) corev1.PodStatus {
	status := corev1.PodStatus{
		ObservedGeneration: p.pod.Generation,
		QOSClass:           qosClass(p.pod),
	}
	p.containerStatuses(&status)
	p.setResources(&status)
	p.setPhase(&status)
	if !isTerminal(p.previous.Phase) && deadlineExceeded(p.pod, p.previous.StartTime, p.now) {
		status.Phase = corev1.PodFailed
		status.Reason, status.Message = reasonDeadlineExceeded, messageDeadlineExceeded
	}
	p.readiness(&status)
	p.setConditions(&status)
	p.setAddresses(&status)
	finishStatus(&status, &p.previous, p.now)
	return status
}

func (p portrait) containerStatuses(status *corev1.PodStatus) {
	status.ContainerStatuses = p.statusesOf(regular, p.previous.ContainerStatuses)
	slices.SortStableFunc(status.ContainerStatuses, func(a, b corev1.ContainerStatus) int {
		return strings.Compare(a.Name, b.Name)
	})
	status.InitContainerStatuses = p.statusesOf(initial, p.previous.InitContainerStatuses)
	status.EphemeralContainerStatuses = p.statusesOf(ephemeral, p.previous.EphemeralContainerStatuses)
}

// setResources reports what the pod as a whole asks for and is allowed (KEP-5419).
func (p portrait) setResources(status *corev1.PodStatus) {
	options := resourcehelper.PodResourcesOptions{}
	requests, limits := resourcehelper.PodRequests(p.pod, options), resourcehelper.PodLimits(p.pod, options)
	if len(requests)+len(limits) == 0 {
		return
	}
	status.Resources = &corev1.ResourceRequirements{Requests: requests, Limits: limits}
	status.AllocatedResources = requests
}

// setPhase derives the phase; a pod never leaves a terminal one.
func (p portrait) setPhase(status *corev1.PodStatus) {
	status.Phase = phaseOf(p.pod, *status, p.over, p.activeRegular())
	switch {
	case isTerminal(p.previous.Phase):
		status.Phase = p.previous.Phase
	case isTerminal(p.pod.Status.Phase):
		status.Phase = p.pod.Status.Phase
	}
	if status.Phase == p.previous.Phase {
		status.Reason, status.Message = p.previous.Reason, p.previous.Message
		if status.Reason == "" {
			status.Reason = p.pod.Status.Reason
		}
		if status.Message == "" {
			status.Message = p.pod.Status.Message
		}
	}
}

// activeRegular reports whether a regular container was created in the sandbox in use.
func (p portrait) activeRegular() bool {
	return slices.ContainsFunc(p.pod.Spec.Containers, func(c corev1.Container) bool {
		return p.observed.active(c.Name) != nil
	})
}

// readiness sets started and ready, by the probes where there are any.
func (p portrait) readiness(status *corev1.PodStatus) {
	for i := range status.ContainerStatuses {
		s := &status.ContainerStatuses[i]
		c, _, _ := findContainer(p.pod, s.Name)
		p.setReady(c, s)
	}
	for i := range status.InitContainerStatuses {
		s := &status.InitContainerStatuses[i]
		c, _, _ := findContainer(p.pod, s.Name)
		if c != nil && isSidecar(c) {
			p.setReady(c, s)
			continue
		}
		started := s.State.Running != nil
		s.Started = &started
		s.Ready = s.State.Terminated != nil && s.State.Terminated.ExitCode == 0
	}
}

func (p portrait) setReady(c *corev1.Container, s *corev1.ContainerStatus) {
	id := containerIDOf(s)
	result := func(spec *corev1.Probe, k probeKind) bool {
		return spec == nil || p.probes != nil && p.probes(id, k) == probeSuccess
	}
	started := s.State.Running != nil && c != nil && result(c.StartupProbe, startupProbe)
	s.Started = &started
	s.Ready = started && result(c.ReadinessProbe, readinessProbe)
}

func (p portrait) setAddresses(status *corev1.PodStatus) {
	ips := p.observed.ips()
	if p.ending && len(ips) == 0 {
		for _, ip := range p.previous.PodIPs { // the addresses it had
			ips = append(ips, ip.IP)
		}
	}
	if len(p.hostIPs) > 0 {
		status.HostIP = p.hostIPs[0]
		for _, ip := range p.hostIPs {
			status.HostIPs = append(status.HostIPs, corev1.HostIP{IP: ip})
		}
		if isHostNetwork(p.pod) && len(ips) == 0 {
			ips = p.hostIPs
		}
	}
	for _, ip := range ips {
		status.PodIPs = append(status.PodIPs, corev1.PodIP{IP: ip})
	}
	if len(ips) > 0 {
		status.PodIP = ips[0]
	}
}

// finishStatus fills in what depends on the status before: start time and transition times.
func finishStatus(status, previous *corev1.PodStatus, now time.Time) {
	for i := range status.Conditions {
		c := &status.Conditions[i]
		if !ownedCondition(c.Type) {
			continue
		}
		c.LastTransitionTime = metav1.NewTime(now)
		if old := findCondition(previous.Conditions, c.Type); old != nil && old.Status == c.Status {
			c.LastTransitionTime = old.LastTransitionTime
		}
	}
	status.StartTime = previous.StartTime.DeepCopy()
	if status.StartTime.IsZero() {
		start := metav1.NewTime(now)
		status.StartTime = &start
	}
	status.ObservedGeneration = max(status.ObservedGeneration, previous.ObservedGeneration)
	normalize(status)
}

// maxMessages is how many bytes of termination messages a pod may have in all.
const maxMessages = 12 << 10

// normalize cuts every time to the seconds that the API keeps, so that equal statuses compare
// equal, and termination messages to their share of the room.
func normalize(status *corev1.PodStatus) {
	count := len(status.InitContainerStatuses) + len(status.ContainerStatuses) + len(status.EphemeralContainerStatuses)
	room := maxMessages / max(count, 1)
	cut := func(t *metav1.Time) {
		if !t.IsZero() {
			*t = metav1.NewTime(t.Truncate(time.Second).UTC())
		}
	}
	cut(status.StartTime)
	for i := range status.Conditions {
		cut(&status.Conditions[i].LastTransitionTime)
		cut(&status.Conditions[i].LastProbeTime)
	}
	for _, list := range [][]corev1.ContainerStatus{
		status.InitContainerStatuses, status.ContainerStatuses, status.EphemeralContainerStatuses,
	} {
		for i := range list {
			for _, state := range []*corev1.ContainerState{&list[i].State, &list[i].LastTerminationState} {
				if state.Running != nil {
					cut(&state.Running.StartedAt)
				}
				if state.Terminated != nil {
					state.Terminated.Message = state.Terminated.Message[:min(len(state.Terminated.Message), room)]
					cut(&state.Terminated.StartedAt)
					cut(&state.Terminated.FinishedAt)
				}
			}
		}
	}
}

// deadlineAt returns when the pod has been active for as long as it may.
func deadlineAt(pod *corev1.Pod, start *metav1.Time) (time.Time, bool) {
	if start.IsZero() {
		start = pod.Status.StartTime
	}
	if pod.Spec.ActiveDeadlineSeconds == nil || start.IsZero() {
		return time.Time{}, false
	}
	return start.Add(time.Duration(*pod.Spec.ActiveDeadlineSeconds) * time.Second), true
}

func deadlineExceeded(pod *corev1.Pod, start *metav1.Time, now time.Time) bool {
	at, limited := deadlineAt(pod, start)
	return limited && !now.Before(at)
}

// finalStatus completes the status of a pod that is over: whatever is not known to have ended is
// taken to have failed, and the phase is terminal.
func finalStatus(pod *corev1.Pod, status corev1.PodStatus) corev1.PodStatus {
	lost := corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
		Reason: reasonStatusUnknown, ExitCode: 137,
		Message: "The container could not be located when the pod was terminated",
	}}
	settle := func(list []corev1.ContainerStatus) {
		for i := range list {
			if list[i].State.Terminated == nil {
				list[i].State = *lost.DeepCopy()
			}
		}
	}
	status = *status.DeepCopy()
	if wasInitialized(pod, status) {
		settle(status.ContainerStatuses)
	}
	settle(everStarted(status.InitContainerStatuses))
	if !isTerminal(status.Phase) {
		status.Phase = corev1.PodFailed
	}
	return status
}

// everStarted cuts the tail of init containers that show no sign of having started; the first one
// always stays.
func everStarted(list []corev1.ContainerStatus) []corev1.ContainerStatus {
	for i := len(list) - 1; i >= 0; i-- {
		if list[i].State.Waiting == nil || list[i].LastTerminationState.Terminated != nil {
			return list[:i+1]
		}
	}
	return list[:min(len(list), 1)]
}

// wasInitialized reports whether the regular containers ever had their turn.
func wasInitialized(pod *corev1.Pod, status corev1.PodStatus) bool {
	if len(pod.Spec.InitContainers) == 0 {
		return true
	}
	for _, s := range status.ContainerStatuses {
		if s.LastTerminationState.Terminated != nil || s.State.Waiting == nil {
			return true
		}
	}
	n := len(status.InitContainerStatuses)
	if n == 0 {
		return false
	}
	last := status.InitContainerStatuses[n-1]
	if c, _, ok := findContainer(pod, last.Name); ok && isSidecar(c) {
		return last.State.Running != nil && last.Started != nil && *last.Started
	}
	for _, t := range []*corev1.ContainerStateTerminated{last.State.Terminated, last.LastTerminationState.Terminated} {
		if t != nil && t.ExitCode == 0 {
			return true
		}
	}
	return false
}
