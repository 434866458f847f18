package decision

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/cri"
)

// ReasonRunContainerError is the waiting reason of a container that was created but could not be started.
const ReasonRunContainerError = "RunContainerError"

// complete sets when a container starts, as which attempt, and which instances it replaces. The status is the pod's
// current one.
func (in *Situation) complete(st *Start, status *corev1.PodStatus) {
	c := &Containers(in.Pod, st.Kind)[st.Index]
	if exited := in.Observed.LatestExited(c.Name); exited != nil && in.Backoff != nil {
		st.Until, st.Delay = in.Backoff.Since(BackoffKey(c), exited.FinishedAt, in.Now)
	}
	st.Attempt = in.attempt(c.Name, status)
	kept := false
	for _, o := range in.Observed.Containers {
		if o.Metadata.Name != c.Name || o.State == cri.ContainerRunning {
			continue
		}
		if !kept && !in.neverStarted(&o) {
			kept = true
			continue
		}
		st.Replace = append(st.Replace, o)
	}
}

// attempt is the restart count of a container's next instance: one more than that of the latest, or from the status if
// the runtime has lost it.
func (in *Situation) attempt(name string, status *corev1.PodStatus) uint32 {
	if latest := in.Observed.Latest(name); latest != nil {
		if in.neverStarted(latest) {
			return latest.Metadata.Attempt
		}
		return latest.Metadata.Attempt + 1
	}
	for _, list := range [...][]corev1.ContainerStatus{status.ContainerStatuses, status.InitContainerStatuses} {
		if s := findStatus(list, name); s != nil && s.State.Terminated != nil {
			return uint32(s.RestartCount) + 1
		} else if s != nil {
			return uint32(s.RestartCount)
		}
	}
	return 0
}

// neverStarted reports whether an earlier kubelet ended between creating the container and starting it: the container
// was never reported, and the next one takes its place.
func (in *Situation) neverStarted(c *cri.ContainerStatus) bool {
	return c.State == cri.ContainerCreated && in.Waiting[c.Metadata.Name].Reason != ReasonRunContainerError
}
