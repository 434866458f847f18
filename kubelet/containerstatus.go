package kubelet

import (
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/cri"
)

// statusesOf describes the pod's containers of one kind, in the order of the spec.
func (p portrait) statusesOf(k kind, previous []corev1.ContainerStatus) []corev1.ContainerStatus {
	containers := containersOf(p.pod, k)
	if len(containers) == 0 {
		return nil
	}
	list := make([]corev1.ContainerStatus, 0, len(containers))
	for i := range containers {
		c := &containers[i]
		var old *corev1.ContainerStatus
		if at := slices.IndexFunc(previous, func(s corev1.ContainerStatus) bool { return s.Name == c.Name }); at >= 0 {
			old = &previous[at]
		}
		status := p.containerStatus(c, old)
		p.applyWaiting(k, c, &status)
		list = append(list, status)
	}
	return list
}

// containerStatus describes one container by its two latest instances, or, where the runtime has
// none, by what was said of it before.
func (p portrait) containerStatus(c *corev1.Container, old *corev1.ContainerStatus) corev1.ContainerStatus {
	var instances []cri.ContainerStatus
	for _, o := range p.observed.containers {
		if o.Metadata.Name == c.Name {
			instances = append(instances, o)
		}
	}
	if len(instances) == 0 {
		return p.unseenStatus(c, old)
	}
	status := p.seenStatus(c, &instances[0], old)
	switch {
	case len(instances) > 1:
		before := p.seenStatus(c, &instances[1], nil)
		status.LastTerminationState = before.State
	case old != nil && old.LastTerminationState.Terminated != nil:
		status.LastTerminationState = *old.LastTerminationState.DeepCopy()
	}
	return status
}

// seenStatus describes an instance that the runtime has.
func (p portrait) seenStatus(c *corev1.Container, o *cri.ContainerStatus, old *corev1.ContainerStatus) corev1.ContainerStatus {
	id := p.runtime + "://" + o.ID
	status := corev1.ContainerStatus{
		Name:         c.Name,
		RestartCount: int32(o.Metadata.Attempt),
		Image:        o.Image.Image,
		ImageID:      o.ImageRef,
		ContainerID:  id,
		Resources:    c.Resources.DeepCopy(),
		VolumeMounts: mountStatuses(c),
	}
	if o.Image.UserSpecified != "" {
		status.Image = o.Image.UserSpecified
	}
	if len(c.Resources.Requests) > 0 {
		status.AllocatedResources = c.Resources.Requests.DeepCopy()
	}
	if old != nil && old.RestartCount > status.RestartCount {
		status.RestartCount = old.RestartCount
	}
	switch {
	case o.State == cri.ContainerRunning:
		status.State.Running = &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(o.StartedAt)}
	case o.State == cri.ContainerExited:
		status.State.Terminated = &corev1.ContainerStateTerminated{
			ExitCode: o.ExitCode, Reason: o.Reason, Message: o.Message,
			StartedAt: instant(o.StartedAt), FinishedAt: instant(o.FinishedAt),
			ContainerID: id,
		}
	case o.State == cri.ContainerUnknown && old != nil && old.State.Running != nil:
		status.State.Terminated = &corev1.ContainerStateTerminated{
			Reason: reasonStatusUnknown, ExitCode: 137,
			Message: "The container could not be located when the pod was terminated",
		}
		status.RestartCount = old.RestartCount + 1
	default:
		status.State.Waiting = &corev1.ContainerStateWaiting{}
	}
	return status
}

// instant is a time of the runtime's; one that it does not know is the beginning of 1970, as in
// CRI.
func instant(t time.Time) metav1.Time {
	if t.IsZero() {
		t = time.Unix(0, 0)
	}
	return metav1.NewTime(t)
}

// unseenStatus describes a container that the runtime knows nothing of.
func (p portrait) unseenStatus(c *corev1.Container, old *corev1.ContainerStatus) corev1.ContainerStatus {
	reason := reasonContainerCreating
	if len(p.pod.Spec.InitContainers) > 0 {
		reason = reasonPodInitializing
	}
	status := corev1.ContainerStatus{
		Name: c.Name, Image: c.Image, VolumeMounts: mountStatuses(c),
		State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason}},
	}
	switch {
	case old == nil:
		return status
	case old.State.Terminated != nil:
		return *old.DeepCopy()
	}
	status.RestartCount = old.RestartCount
	status.LastTerminationState = *old.LastTerminationState.DeepCopy()
	if old.State.Running != nil && status.LastTerminationState.Terminated == nil {
		// It ran, and went without leaving word: that is an end, not a wait for a first start.
		status.LastTerminationState.Terminated = &corev1.ContainerStateTerminated{
			Reason: reasonStatusUnknown, ExitCode: 137,
			Message: "The container could not be located when the pod was deleted.  The container used to be Running",
		}
		if p.pod.DeletionTimestamp == nil {
			status.RestartCount++
		}
	}
	return status
}

// applyWaiting turns the status of a container that is to be started, and could not be, into the
// reason for that.
func (p portrait) applyWaiting(k kind, c *corev1.Container, status *corev1.ContainerStatus) {
	latest := p.observed.latest(c.Name)
	if k == initial {
		if latest != nil && latest.State == cri.ContainerExited && latest.ExitCode == 0 && !isSidecar(c) {
			return
		}
		if latest == nil && !isSidecar(c) && status.State.Waiting != nil && p.anyRegular() {
			status.State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
				Reason: "Completed",
				Message: "Unable to get init container status from container runtime and pod has been " +
					"initialized, treat it as exited normally",
			}}
			return
		}
	}
	why, known := p.waiting[c.Name]
	if !known || !shouldRun(p.pod, c, p.observed) {
		return
	}
	if status.State.Terminated != nil {
		status.LastTerminationState = status.State
	}
	status.State = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{
		Reason: why.Reason, Message: why.Message,
	}}
}

func (p portrait) anyRegular() bool {
	return slices.ContainsFunc(p.pod.Spec.Containers, func(c corev1.Container) bool {
		return p.observed.latest(c.Name) != nil
	})
}

func mountStatuses(c *corev1.Container) []corev1.VolumeMountStatus {
	var list []corev1.VolumeMountStatus
	for _, m := range c.VolumeMounts {
		status := corev1.VolumeMountStatus{Name: m.Name, MountPath: m.MountPath, ReadOnly: m.ReadOnly}
		if m.ReadOnly {
			mode := corev1.RecursiveReadOnlyDisabled
			status.RecursiveReadOnly = &mode
		}
		list = append(list, status)
	}
	return list
}

// containerIDOf returns a container status's id as the runtime knows it.
func containerIDOf(s *corev1.ContainerStatus) string {
	_, id, _ := strings.Cut(s.ContainerID, "://")
	return id
}
