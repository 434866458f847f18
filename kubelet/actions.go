package kubelet

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/cri"
)

// actions is what has to happen for a pod to come closer to what it should be.
type actions struct {
	// KillPod stops everything the pod has, sandboxes included.
	KillPod bool
	// CreateSandbox makes a new sandbox, the pod's number Attempt. Otherwise SandboxID is in use.
	CreateSandbox bool
	SandboxID     string
	Attempt       uint32
	// Kill stops containers, before anything starts.
	Kill []killing
	// Start starts containers, in this order.
	Start []starting
}

// killing is a container to stop, and why.
type killing struct {
	ID, Name, Message string
	Reason            killReason
}

// killReason selects the grace period of a container that fails its probes.
type killReason int

const (
	killUnknown killReason = iota
	killLiveness
	killStartup
)

// starting is a container to start.
type starting struct {
	Kind  kind
	Index int
	// Until is when the restart back-off ends, Delay how long it is; zero when it may start.
	Until time.Time
	Delay time.Duration
}

func (a actions) none() bool {
	return !a.KillPod && !a.CreateSandbox && len(a.Kill) == 0 && len(a.Start) == 0
}

// probeResult is what is known of a probe.
type probeResult int

const (
	probeUnknown probeResult = iota // no result yet, or no such probe
	probeSuccess
	probeFailure
)

// probeKind names a probe in messages.
type probeKind string

const (
	readinessProbe probeKind = "Readiness"
	livenessProbe  probeKind = "Liveness"
	startupProbe   probeKind = "Startup"
)

// situation is all that decisions about a pod are made from.
type situation struct {
	pod      *corev1.Pod
	observed observation
	// probes tells the last result of a probe of a container instance.
	probes  func(containerID string, k probeKind) probeResult
	backoff *backoff
	now     time.Time
}

// computeActions decides what to do for a pod that should run. It changes nothing.
func computeActions(s situation) actions {
	need, attempt, sandboxID, _ := sandboxNeeded(s.pod, s.observed)
	a := actions{KillPod: need, CreateSandbox: need, SandboxID: sandboxID, Attempt: attempt}
	if need {
		s.startAfresh(&a)
	} else {
		s.carryOn(&a)
	}
	s.applyBackoff(&a)
	return a
}

// sandboxNeeded reports whether the pod needs a new sandbox, and why; otherwise the id of the one
// that it has.
func sandboxNeeded(pod *corev1.Pod, o observation) (need bool, attempt uint32, id, why string) {
	if len(o.sandboxes) == 0 {
		return true, 0, "", "no pod sandbox exists"
	}
	newest := o.sandboxes[0]
	ready := 0
	for _, s := range o.sandboxes {
		if s.State == cri.SandboxReady {
			ready++
		}
	}
	next := newest.Metadata.Attempt + 1
	wantHost := isHostNetwork(pod)
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

// startAfresh decides what starts in a new sandbox, if one is made at all.
func (s situation) startAfresh(a *actions) {
	anyRestarts := slices.ContainsFunc(s.pod.Spec.Containers, func(c corev1.Container) bool {
		return restartable(s.pod, &c)
	})
	if !anyRestarts && a.Attempt != 0 && len(s.observed.containers) > 0 {
		a.CreateSandbox = false
		return
	}
	var start []starting
	for i := range s.pod.Spec.Containers {
		c := &s.pod.Spec.Containers[i]
		if latest := s.observed.latest(c.Name); latest != nil && latest.State == cri.ContainerExited &&
			latest.ExitCode == 0 && !mayRestart(s.pod, c, 0) && mayRestart(s.pod, c, 1) {
			continue // succeeded, and runs again only after a failure
		}
		start = append(start, starting{Kind: regular, Index: i})
	}
	if len(start) == 0 && s.hasRegular() {
		a.CreateSandbox = false
		return
	}
	if len(s.pod.Spec.InitContainers) > 0 {
		start = []starting{{Kind: initial, Index: 0}}
	}
	a.Start = start
}

// hasRegular reports whether a regular container was ever created, so that initialisation is over.
func (s situation) hasRegular() bool {
	return slices.ContainsFunc(s.pod.Spec.Containers, func(c corev1.Container) bool {
		return s.observed.latest(c.Name) != nil
	})
}

// carryOn decides what happens in the sandbox there is.
func (s situation) carryOn(a *actions) {
	for i := range s.pod.Spec.EphemeralContainers {
		// One that has ended does not run again, even where the runtime has forgotten it.
		name := s.pod.Spec.EphemeralContainers[i].Name
		said := findStatus(s.pod.Status.EphemeralContainerStatuses, name)
		if s.observed.latest(name) == nil && (said == nil || said.State.Terminated == nil) {
			a.Start = append(a.Start, starting{Kind: ephemeral, Index: i})
		}
	}
	initialized := s.initActions(a)
	if a.KillPod || !initialized {
		return
	}
	keep, starts := 0, 0
	for i := range s.pod.Spec.Containers {
		kept, start := s.regularActions(i, a)
		if kept {
			keep++
		}
		if start {
			starts++
		}
	}
	if keep == 0 && starts == 0 {
		a.KillPod = true
		// Sidecars do not keep a finished pod alive.
		a.Start = slices.DeleteFunc(a.Start, func(st starting) bool { return st.Kind == initial })
	}
}

// regularActions decides about one regular container.
func (s situation) regularActions(i int, a *actions) (kept, start bool) {
	c := &s.pod.Spec.Containers[i]
	latest := s.observed.latest(c.Name)
	if latest == nil || latest.State != cri.ContainerRunning {
		if !shouldRun(s.pod, c, s.observed) {
			return false, false
		}
		if latest != nil && latest.State == cri.ContainerUnknown {
			a.Kill = append(a.Kill, killing{ID: latest.ID, Name: c.Name,
				Message: fmt.Sprintf("Container is in %q state, try killing it before restart", latest.State)})
		}
		a.Start = append(a.Start, starting{Kind: regular, Index: i})
		return false, true
	}
	message, reason, restart := s.unfit(c, latest, "Container")
	if message == "" {
		return true, false
	}
	if restart {
		message += ", will be restarted"
		a.Start = append(a.Start, starting{Kind: regular, Index: i})
	}
	a.Kill = append(a.Kill, killing{ID: latest.ID, Name: c.Name, Message: message, Reason: reason})
	return false, restart
}

// unfit says why a running container has to end, or nothing, and whether it is to start again.
func (s situation) unfit(c *corev1.Container, latest *cri.ContainerStatus, what string) (message string, reason killReason, restart bool) {
	restart = s.pod.Spec.RestartPolicy != corev1.RestartPolicyNever
	if c.RestartPolicy != nil {
		restart = *c.RestartPolicy != corev1.ContainerRestartPolicyNever
	}
	hash, known := latest.Annotations[annotationHash]
	switch {
	case known && hash != hashOf(c):
		return fmt.Sprintf("%s %s definition changed", what, c.Name), killUnknown, true
	case s.probe(latest.ID, livenessProbe) == probeFailure:
		return fmt.Sprintf("%s %s failed liveness probe", what, c.Name), killLiveness, restart
	case s.probe(latest.ID, startupProbe) == probeFailure:
		return fmt.Sprintf("%s %s failed startup probe", what, c.Name), killStartup, restart
	}
	return "", killUnknown, false
}

func (s situation) probe(id string, k probeKind) probeResult {
	if s.probes == nil {
		return probeUnknown
	}
	return s.probes(id, k)
}

// applyBackoff marks the containers that have to wait because they ended too recently.
func (s situation) applyBackoff(a *actions) {
	for i := range a.Start {
		st := &a.Start[i]
		c := containersOf(s.pod, st.Kind)[st.Index]
		if exited := s.observed.latestExited(c.Name); exited != nil && s.backoff != nil {
			st.Until, st.Delay = s.backoff.since(backoffKey(&c), exited.FinishedAt, s.now)
		}
	}
}
