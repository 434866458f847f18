package decision

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/cri"
	"github.com/keelson-dev/keelson/podspec/restart"
)

// statusesOf describes the pod's containers of one Kind, in the order of the spec.
func (in *Situation) statusesOf(k Kind, previous []corev1.ContainerStatus) []corev1.ContainerStatus {
	containers := Containers(in.Pod, k)
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
		status := in.containerStatus(c, old)
		in.applyWaiting(k, c, &status)
		list = append(list, status)
	}
	return list
}

// containerStatus describes one container by its two latest instances or, if the runtime has none, by its previous
// status.
func (in *Situation) containerStatus(c *corev1.Container, old *corev1.ContainerStatus) corev1.ContainerStatus {
	var instances []cri.ContainerStatus
	for _, o := range in.Observed.Containers {
		if o.Metadata.Name == c.Name {
			instances = append(instances, o)
		}
	}
	if len(instances) == 0 {
		return in.unseenStatus(c, old)
	}
	status := in.seenStatus(c, &instances[0], old)
	switch {
	case len(instances) > 1:
		before := in.seenStatus(c, &instances[1], nil)
		status.LastTerminationState = before.State
	case old != nil && old.State.Terminated != nil && old.ContainerID != status.ContainerID: // the runtime has lost it
		status.LastTerminationState = *old.State.DeepCopy()
	case old != nil:
		status.LastTerminationState = *old.LastTerminationState.DeepCopy()
	}
	return status
}

// seenStatus describes an instance in the runtime.
func (in *Situation) seenStatus(c *corev1.Container, o *cri.ContainerStatus, old *corev1.ContainerStatus) corev1.ContainerStatus {
	id := in.Node.Runtime + "://" + o.ID
	status := corev1.ContainerStatus{
		Name:         c.Name,
		RestartCount: int32(o.Metadata.Attempt),
		Image:        o.Image.Image,
		ImageID:      o.ImageRef,
		ContainerID:  id,
		Resources:    in.resourcesOf(c, o),
		VolumeMounts: mountStatuses(c),
	}
	if o.Image.UserSpecified != "" {
		status.Image = o.Image.UserSpecified
	}
	if len(c.Resources.Requests) > 0 {
		status.AllocatedResources = c.Resources.Requests.DeepCopy()
	}
	if old != nil {
		status.RestartCount = max(status.RestartCount, old.RestartCount)
	}
	switch {
	case o.State == cri.ContainerRunning:
		status.State.Running = &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(o.StartedAt)}
		if old != nil && old.State.Terminated != nil && old.RestartCount >= int32(o.Metadata.Attempt) {
			status.RestartCount = old.RestartCount + 1
		}
	case o.State == cri.ContainerExited:
		status.State.Terminated = &corev1.ContainerStateTerminated{
			ExitCode: o.ExitCode, Reason: o.Reason, Message: o.Message,
			StartedAt: instant(o.StartedAt), FinishedAt: instant(o.FinishedAt),
			ContainerID: id,
		}
	case o.State == cri.ContainerUnknown && old != nil && old.State.Running != nil:
		status.State = lost(messageLost)
		status.RestartCount = old.RestartCount + 1
	default:
		status.State.Waiting = &corev1.ContainerStateWaiting{}
	}
	return status
}

// instant converts a time of the runtime; an unknown one is the start of 1970, as in CRI.
func instant(t time.Time) metav1.Time {
	if t.IsZero() {
		t = time.Unix(0, 0)
	}
	return metav1.NewTime(t)
}

// unseenStatus describes a container that is not in the runtime.
func (in *Situation) unseenStatus(c *corev1.Container, old *corev1.ContainerStatus) corev1.ContainerStatus {
	reason := reasonContainerCreating
	if len(in.Pod.Spec.InitContainers) > 0 {
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
		// It ran and disappeared without an exit status: it has ended, and is not waiting for its first start.
		status.LastTerminationState = lost(messageLostRunning)
		if in.Pod.DeletionTimestamp == nil {
			status.RestartCount++
		}
	}
	return status
}

// applyWaiting sets the waiting reason of a container that could not be started.
func (in *Situation) applyWaiting(k Kind, c *corev1.Container, status *corev1.ContainerStatus) {
	latest := in.Observed.Latest(c.Name)
	if k == Initial {
		if latest != nil && latest.State == cri.ContainerExited && latest.ExitCode == 0 && !restart.Sidecar(c) {
			return
		}
		if latest == nil && !restart.Sidecar(c) && status.State.Waiting != nil && in.anyRegular() {
			status.State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
				Reason: "Completed",
				Message: "Unable to get init container status from container runtime and pod has been " +
					"initialized, treat it as exited normally",
			}}
			return
		}
	}
	why, known := in.Waiting[c.Name]
	if !known || !in.shouldRun(c) {
		return
	}
	if status.State.Terminated != nil {
		status.LastTerminationState = status.State
	}
	status.State = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{
		Reason: why.Reason, Message: why.Message,
	}}
}

func (in *Situation) anyRegular() bool {
	return slices.ContainsFunc(in.Pod.Spec.Containers, func(c corev1.Container) bool {
		return in.Observed.Latest(c.Name) != nil
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

// Below these amounts of CPU, in thousandths, the kernel does not tell one from another.
const (
	minMilliShares = 2
	minMilliQuota  = 10
)

// resourcesOf returns the resources that an instance has in force: those that the runtime reports, and for the rest
// those last set. The status of an instance that does not run has those of the next one.
func (in *Situation) resourcesOf(c *corev1.Container, o *cri.ContainerStatus) *corev1.ResourceRequirements {
	r := c.Resources.DeepCopy()
	if o.State != cri.ContainerRunning {
		return r
	}
	set := in.Resize.inForce(c)
	if set.Requests != nil && r.Requests != nil {
		if memory, ok := set.Requests[corev1.ResourceMemory]; ok && !memory.IsZero() {
			r.Requests[corev1.ResourceMemory] = memory.DeepCopy()
		}
	}
	if o.Resources == nil {
		return r
	}
	if r.Limits != nil {
		milli := int64(0)
		if o.Resources.CPUPeriod > 0 && o.Resources.CPUQuota > 0 {
			milli = o.Resources.CPUQuota * 1000 / o.Resources.CPUPeriod
		}
		report(r.Limits, milli, minMilliQuota)
		if o.Resources.MemoryLimit > 0 {
			r.Limits[corev1.ResourceMemory] = *resource.NewQuantity(o.Resources.MemoryLimit, resource.BinarySI)
		}
	}
	if r.Requests != nil && o.Resources.CPUShares >= minMilliShares {
		report(r.Requests, (o.Resources.CPUShares*1000+1023)/1024, minMilliShares)
	}
	return r
}

// report replaces an amount of CPU by the one that a runtime reports, if that is not 0 and not both are as good as none.
func report(list corev1.ResourceList, milli, least int64) {
	if milli > 0 && (milli > least || list.Cpu().MilliValue() > least) {
		list[corev1.ResourceCPU] = *resource.NewMilliQuantity(milli, resource.DecimalSI)
	}
}
