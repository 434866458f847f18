package decision

import (
	"slices"
	"strings"
	"time"

	"github.com/keelson-dev/keelson/podspec/qos"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	resourcehelper "k8s.io/component-helpers/resource"

	"github.com/keelson-dev/keelson/podspec/restart"
)

// Reasons in pod statuses.
const (
	reasonContainerCreating = "ContainerCreating"
	reasonPodInitializing   = "PodInitializing"
	reasonStatusUnknown     = "ContainerStatusUnknown"

	// ReasonDeadlineExceeded and MessageDeadlineExceeded are set on a pod that was active for too long.
	ReasonDeadlineExceeded  = "DeadlineExceeded"
	MessageDeadlineExceeded = "Pod was active on the node longer than the specified deadline"

	messageLost        = "The container could not be located when the pod was terminated"
	messageLostRunning = "The container could not be located when the pod was deleted.  The container used to be Running"
)

// Status returns the status of a decision, for callers that report a pod without acting on it yet. It retains nothing.
func Status(s Situation) corev1.PodStatus { return s.status() }

func (in *Situation) status() corev1.PodStatus {
	status := corev1.PodStatus{
		ObservedGeneration: in.Pod.Generation,
		QOSClass:           qos.Class(in.Pod),
	}
	in.containerStatuses(&status)
	in.setResources(&status)
	in.setPhase(&status)
	if !Terminal(in.Previous.Phase) && deadlineExceeded(in.Pod, in.Previous.StartTime, in.Now) {
		status.Phase = corev1.PodFailed
		status.Reason, status.Message = ReasonDeadlineExceeded, MessageDeadlineExceeded
	}
	in.readiness(&status)
	in.setConditions(&status)
	in.setAddresses(&status)
	finishStatus(&status, &in.Previous, in.Now)
	if in.Stage == Over {
		settle(in.Pod, &status)
	}
	return status
}

func (in *Situation) containerStatuses(status *corev1.PodStatus) {
	status.ContainerStatuses = in.statusesOf(Regular, in.Previous.ContainerStatuses)
	slices.SortStableFunc(status.ContainerStatuses, func(a, b corev1.ContainerStatus) int {
		return strings.Compare(a.Name, b.Name)
	})
	status.InitContainerStatuses = in.statusesOf(Initial, in.Previous.InitContainerStatuses)
	status.EphemeralContainerStatuses = in.statusesOf(Ephemeral, in.Previous.EphemeralContainerStatuses)
}

// setResources reports the requests and limits of the pod as a whole (KEP-5419).
func (in *Situation) setResources(status *corev1.PodStatus) {
	options := resourcehelper.PodResourcesOptions{}
	requests, limits := resourcehelper.PodRequests(in.Pod, options), resourcehelper.PodLimits(in.Pod, options)
	if len(requests)+len(limits) == 0 {
		return
	}
	status.Resources = &corev1.ResourceRequirements{Requests: requests, Limits: limits}
	status.AllocatedResources = requests
}

// setPhase derives the phase; a pod never leaves a terminal one.
func (in *Situation) setPhase(status *corev1.PodStatus) {
	status.Phase = phaseOf(in.Pod, *status, in.Stage == Over, in.activeRegular())
	switch {
	case Terminal(in.Previous.Phase):
		status.Phase = in.Previous.Phase
	case Terminal(in.Pod.Status.Phase):
		status.Phase = in.Pod.Status.Phase
	}
	if status.Phase == in.Previous.Phase {
		status.Reason, status.Message = in.Previous.Reason, in.Previous.Message
		if status.Reason == "" {
			status.Reason = in.Pod.Status.Reason
		}
		if status.Message == "" {
			status.Message = in.Pod.Status.Message
		}
	}
}

// activeRegular reports whether a regular container was created in the sandbox in use.
func (in *Situation) activeRegular() bool {
	return slices.ContainsFunc(in.Pod.Spec.Containers, func(c corev1.Container) bool {
		return in.Observed.Active(c.Name) != nil
	})
}

// readiness sets started and ready, according to the probes if there are any.
func (in *Situation) readiness(status *corev1.PodStatus) {
	for i := range status.ContainerStatuses {
		s := &status.ContainerStatuses[i]
		c, _, _ := Container(in.Pod, s.Name)
		in.setReady(c, s)
	}
	for i := range status.InitContainerStatuses { // in the order of the spec
		c, s := &in.Pod.Spec.InitContainers[i], &status.InitContainerStatuses[i]
		if restart.Sidecar(c) {
			in.setReady(c, s)
			continue
		}
		started := s.State.Running != nil
		s.Started = &started
		s.Ready = s.State.Terminated != nil && s.State.Terminated.ExitCode == 0
	}
}

func (in *Situation) setReady(c *corev1.Container, s *corev1.ContainerStatus) {
	id := InstanceID(s)
	result := func(spec *corev1.Probe, k ProbeKind) bool {
		return spec == nil || in.probe(id, k) == ProbeSuccess
	}
	started := s.State.Running != nil && result(c.StartupProbe, Startup)
	s.Started = &started
	s.Ready = started && result(c.ReadinessProbe, Readiness)
}

func (in *Situation) setAddresses(status *corev1.PodStatus) {
	ips := in.Observed.IPs()
	if in.Stage >= Terminating && len(ips) == 0 {
		for _, ip := range in.Previous.PodIPs { // the addresses it had
			ips = append(ips, ip.IP)
		}
	}
	if len(in.Node.HostIPs) > 0 {
		status.HostIP = in.Node.HostIPs[0]
		for _, ip := range in.Node.HostIPs {
			status.HostIPs = append(status.HostIPs, corev1.HostIP{IP: ip})
		}
		if in.Pod.Spec.HostNetwork && len(ips) == 0 {
			ips = in.Node.HostIPs
		}
	}
	for _, ip := range ips {
		status.PodIPs = append(status.PodIPs, corev1.PodIP{IP: ip})
	}
	if len(ips) > 0 {
		status.PodIP = ips[0]
	}
}

// finishStatus fills in what depends on the previous status: start time and transition times.
func finishStatus(status, previous *corev1.PodStatus, now time.Time) {
	for i := range status.Conditions {
		c := &status.Conditions[i]
		if !ownedCondition(c.Type) || aboutResize(c.Type) {
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

// maxMessages is the total size of a pod's termination messages in bytes.
const maxMessages = 12 << 10

// normalize truncates every time to the seconds that the API keeps, so that equal statuses compare equal, and
// termination messages to their share of maxMessages.
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

// deadline returns when the pod's active deadline expires.
func deadline(pod *corev1.Pod, start *metav1.Time) (time.Time, bool) {
	if start.IsZero() {
		start = pod.Status.StartTime
	}
	if pod.Spec.ActiveDeadlineSeconds == nil || start.IsZero() {
		return time.Time{}, false
	}
	return start.Add(time.Duration(*pod.Spec.ActiveDeadlineSeconds) * time.Second), true
}

func deadlineExceeded(pod *corev1.Pod, start *metav1.Time, now time.Time) bool {
	at, limited := deadline(pod, start)
	return limited && !now.Before(at)
}

// settle completes the status of a pod that is over: containers not known to have ended count as failed, and the phase
// is terminal.
func settle(pod *corev1.Pod, status *corev1.PodStatus) {
	end := func(list []corev1.ContainerStatus) {
		for i := range list {
			if list[i].State.Terminated == nil {
				list[i].State = lost(messageLost)
			}
		}
	}
	if wasInitialized(pod, status) {
		end(status.ContainerStatuses)
	}
	end(everStarted(status.InitContainerStatuses))
	if !Terminal(status.Phase) {
		status.Phase = corev1.PodFailed
	}
}

// lost is the state of a container that is gone without an exit status.
func lost(message string) corev1.ContainerState {
	return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
		Reason: reasonStatusUnknown, ExitCode: 137, Message: message,
	}}
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
func wasInitialized(pod *corev1.Pod, status *corev1.PodStatus) bool {
	if len(pod.Spec.InitContainers) == 0 {
		return true
	}
	for _, s := range status.ContainerStatuses {
		if s.LastTerminationState.Terminated != nil || s.State.Waiting == nil {
			return true
		}
	}
	c := &pod.Spec.InitContainers[len(pod.Spec.InitContainers)-1]
	last := findStatus(status.InitContainerStatuses, c.Name)
	if last == nil {
		return false
	}
	if restart.Sidecar(c) {
		return last.Started != nil && *last.Started
	}
	for _, t := range []*corev1.ContainerStateTerminated{last.State.Terminated, last.LastTerminationState.Terminated} {
		if t != nil && t.ExitCode == 0 {
			return true
		}
	}
	return false
}
