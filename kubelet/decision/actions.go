package decision

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/cri"
	"github.com/keelson-dev/keelson/podspec/restart"
)

// Actions are the steps that bring a pod closer to its spec, in the order of the fields.
type Actions struct {
	// KillPod stops everything in the pod: the containers of Kill, concurrently as far as Kill.After allows, and then
	// the sandboxes. Otherwise only the containers of Kill are stopped, one after the other.
	KillPod bool
	Kill    []Kill
	// StopSandboxes are the IDs of the sandboxes to stop.
	StopSandboxes []string
	// Remove are containers of earlier sandboxes that must be removed before those of the new one start: init
	// containers, which run again.
	Remove []cri.ContainerStatus
	// CreateSandbox creates a new sandbox, the pod's number Attempt. SandboxID is the sandbox that it replaces, if
	// known, or else the one in use.
	CreateSandbox bool
	SandboxID     string
	Attempt       uint32
	// Resize changes the resources of what runs, once the sandbox exists.
	Resize ResizeActions
	// Start starts containers, in this order. One that cannot be started does not block those after it: an init container
	// that others wait for is the last one.
	Start []Start
}

// None reports whether there is nothing to do.
func (a Actions) None() bool {
	return !a.KillPod && !a.CreateSandbox && len(a.Kill) == 0 && len(a.Start) == 0 && a.Resize.None()
}

// Kill is a container to stop, and why.
type Kill struct {
	ID, Name string // of the container, in the runtime and in the pod
	// Message is for the event.
	Message string
	// Grace is how many seconds it gets to exit by itself, including its pre-stop hook.
	Grace int64
	// After are the names of the containers that must end first; it waits for them at most for its grace period.
	After []string
}

// Start is a container to start.
type Start struct {
	Kind  Kind
	Index int // of the container in its list
	// Attempt is the number of the new instance: how often the container was restarted before it.
	Attempt uint32
	// Replace are dead instances to remove first. The latest one is kept for its logs and its exit status.
	Replace []cri.ContainerStatus
	// Until is when the restart back-off ends, and Delay its length; both are zero if the container may start now.
	Until time.Time
	Delay time.Duration
}

// actions decides what to do for a pod that should run and has this status.
func (in *Situation) actions(status *corev1.PodStatus) Actions {
	need, attempt, sandboxID, _ := sandboxNeeded(in.Pod, in.Observed)
	a := Actions{KillPod: need, SandboxID: sandboxID, Attempt: attempt}
	if need {
		a.Start = in.startAfresh(attempt)
		a.CreateSandbox = len(a.Start) > 0
	} else {
		in.carryOn(&a)
	}
	if a.KillPod {
		in.endAll(&a)
	}
	if a.KillPod && !a.CreateSandbox {
		a.Start = nil // sidecars do not keep a finished pod alive either
	}
	if a.CreateSandbox {
		for _, c := range in.Observed.Containers {
			if _, k, _ := Container(in.Pod, c.Metadata.Name); k == Initial {
				a.Remove = append(a.Remove, c)
			}
		}
	}
	if a.KillPod {
		a.Resize = ResizeActions{} // nothing that runs stays
	}
	if !a.KillPod || a.CreateSandbox {
		in.resizePod(&a)
	}
	for i := range a.Start {
		in.complete(&a.Start[i], status)
	}
	return a
}

// sandboxNeeded reports whether the pod needs a new sandbox, and why, with the attempt number to use and the ID of the
// current sandbox.
func sandboxNeeded(pod *corev1.Pod, o Observation) (need bool, attempt uint32, id, why string) {
	if len(o.Sandboxes) == 0 {
		return true, 0, "", "no pod sandbox exists"
	}
	newest := o.Sandboxes[0]
	ready := 0
	for _, s := range o.Sandboxes {
		if s.State == cri.SandboxReady {
			ready++
		}
	}
	next := newest.Metadata.Attempt + 1
	wantHost := pod.Spec.HostNetwork
	switch {
	case ready > 1:
		return true, next, newest.ID, "multiple pod sandboxes are ready and need to be reconciled"
	case newest.State != cri.SandboxReady:
		return true, next, newest.ID, "pod sandbox is not ready"
	case (newest.Namespaces.Network == cri.NamespaceNode) != wantHost:
		return true, next, "", "network namespace mode changed and sandbox needs to be recreated"
	case !wantHost && len(newest.IPs) == 0:
		return true, next, newest.ID, "pod sandbox has no IP address"
	}
	return false, newest.Metadata.Attempt, newest.ID, ""
}

// startAfresh decides what starts in a new sandbox, the pod's number attempt; if nothing does, none is created. As
// upstream, a pod whose policy is Never gets no second sandbox, whatever the policies of its containers; in other pods
// all containers start, whatever their policies, except those that have succeeded and have the policy OnFailure.
func (in *Situation) startAfresh(attempt uint32) (start []Start) {
	spec := &in.Pod.Spec
	if spec.RestartPolicy == corev1.RestartPolicyNever && attempt != 0 && len(in.Observed.Containers) > 0 {
		return nil
	}
	for i := range spec.Containers {
		c := &spec.Containers[i]
		latest := in.Observed.Latest(c.Name)
		succeeded := latest != nil && latest.State == cri.ContainerExited && latest.ExitCode == 0
		if !succeeded || restart.Policy(spec, c) != corev1.RestartPolicyOnFailure {
			start = append(start, Start{Kind: Regular, Index: i})
		}
	}
	if len(start) > 0 && len(spec.InitContainers) > 0 {
		return []Start{{Kind: Initial, Index: 0}}
	}
	return start
}

// carryOn decides what to do in the existing sandbox.
func (in *Situation) carryOn(a *Actions) {
	for i := range in.Pod.Spec.EphemeralContainers {
		// An ephemeral container never runs again, even if the runtime has lost it.
		name := in.Pod.Spec.EphemeralContainers[i].Name
		said := findStatus(in.Pod.Status.EphemeralContainerStatuses, name)
		if in.Observed.Latest(name) == nil && (said == nil || said.State.Terminated == nil) {
			a.Start = append(a.Start, Start{Kind: Ephemeral, Index: i})
		}
	}
	if !in.initActions(a) {
		return
	}
	a.KillPod = true
	for i := range in.Pod.Spec.Containers {
		if in.regularActions(i, a) {
			a.KillPod = false
		}
	}
}

// regularActions decides about one regular container, and reports whether it keeps running or starts.
func (in *Situation) regularActions(i int, a *Actions) (stays bool) {
	c := &in.Pod.Spec.Containers[i]
	latest := in.Observed.Latest(c.Name)
	if latest == nil || latest.State != cri.ContainerRunning {
		if !in.shouldRun(c) {
			return false
		}
		if latest != nil && latest.State == cri.ContainerUnknown {
			a.Kill = append(a.Kill, in.kill(c, latest, "",
				fmt.Sprintf("Container is in %q state, try killing it before restart", latest.State)))
		}
		a.Start = append(a.Start, Start{Kind: Regular, Index: i})
		return true
	}
	message, failed, again := in.mustStop(c, latest, "Container")
	if message == "" {
		if in.resize(c, latest, a) {
			a.Start = append(a.Start, Start{Kind: Regular, Index: i})
		}
		return true
	}
	if again {
		message += ", will be restarted"
		a.Start = append(a.Start, Start{Kind: Regular, Index: i})
	}
	a.Kill = append(a.Kill, in.kill(c, latest, failed, message))
	return again
}

// mustStop returns why a running container must stop, empty if it need not; the failed probe, if any; and whether to start
// the container again.
func (in *Situation) mustStop(c *corev1.Container, latest *cri.ContainerStatus, what string) (message string, failed ProbeKind, again bool) {
	again = restart.Policy(&in.Pod.Spec, c) != corev1.RestartPolicyNever
	hash, known := latest.Annotations[AnnotationHash]
	switch {
	case known && hash != Hash(c):
		return fmt.Sprintf("%s %s definition changed", what, c.Name), "", true
	case in.probe(latest.ID, Liveness) == ProbeFailure:
		return fmt.Sprintf("%s %s failed liveness probe", what, c.Name), Liveness, again
	case in.probe(latest.ID, Startup) == ProbeFailure:
		return fmt.Sprintf("%s %s failed startup probe", what, c.Name), Startup, again
	}
	return "", "", again
}

// shouldRun reports whether a container that does not run is to be started.
func (in *Situation) shouldRun(c *corev1.Container) bool {
	if in.Pod.DeletionTimestamp != nil {
		return false
	}
	latest := in.Observed.Latest(c.Name)
	switch {
	case latest == nil:
		return true
	case latest.State == cri.ContainerRunning:
		return false
	case latest.State == cri.ContainerExited:
		return restart.After(&in.Pod.Spec, c, latest.ExitCode)
	default:
		return true
	}
}
