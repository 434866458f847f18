package kubelet

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/cri"
)

// initActions decides about the init containers and reports whether the regular ones may start.
// It looks at them from the last to the first: what a later one did proves the earlier ones done,
// even when the runtime no longer has those.
func (s situation) initActions(a *actions) (initialized bool) {
	containers := s.pod.Spec.InitContainers
	if len(containers) == 0 {
		return true
	}
	initialized = slices.ContainsFunc(s.pod.Spec.Containers, func(c corev1.Container) bool {
		return s.observed.active(c.Name) != nil
	})
	passed := initialized // whether the container looked at has had its turn before
	var start []int
	for i := len(containers) - 1; i >= 0; i-- {
		c := &containers[i]
		latest := s.observed.active(c.Name)
		if latest == nil {
			if passed && isSidecar(c) {
				start = append(start, i)
			}
			continue
		}
		if passed && !isSidecar(c) {
			continue
		}
		step := s.initStep(i, latest)
		if step.failed {
			a.KillPod, a.Start = true, nil
			return false
		}
		if step.done && i == len(containers)-1 {
			initialized = true
		} else if step.done && !passed {
			start = append(start, i+1)
		}
		if step.start {
			start = append(start, i)
		}
		if step.kill != nil {
			a.Kill = append(a.Kill, *step.kill)
		}
		passed = true
	}
	if !passed {
		start = append(start, 0)
	}
	slices.Sort(start)
	for _, i := range slices.Compact(start) {
		a.Start = append(a.Start, starting{Kind: initial, Index: i})
	}
	return initialized
}

// initStep is what one init container's latest instance means.
type initStep struct {
	done   bool // the next one may start
	start  bool // it has to start (again)
	failed bool // it failed for good
	kill   *killing
}

func (s situation) initStep(i int, latest *cri.ContainerStatus) initStep {
	c := &s.pod.Spec.InitContainers[i]
	switch latest.State {
	case cri.ContainerCreated:
		return initStep{start: true} // its start failed
	case cri.ContainerRunning:
		if !isSidecar(c) {
			return initStep{}
		}
		return s.sidecarStep(c, latest)
	case cri.ContainerExited:
		switch {
		case isSidecar(c):
			return initStep{start: true}
		case latest.ExitCode == 0:
			return initStep{done: true}
		default:
			return initStep{start: shouldRun(s.pod, c, s.observed), failed: !shouldRun(s.pod, c, s.observed)}
		}
	default:
		if !isSidecar(c) && !restartable(s.pod, c) {
			return initStep{failed: true}
		}
		return initStep{start: true, kill: &killing{ID: latest.ID, Name: c.Name,
			Message: fmt.Sprintf("Init container is in %q state, try killing it before restart", latest.State)}}
	}
}

// sidecarStep decides about a sidecar that runs: it is done once started, and restarted when unfit.
func (s situation) sidecarStep(c *corev1.Container, latest *cri.ContainerStatus) initStep {
	if c.StartupProbe != nil && s.probe(latest.ID, startupProbe) == probeUnknown {
		return initStep{}
	}
	message, reason, _ := s.unfit(c, latest, "Init container")
	step := initStep{done: reason != killStartup}
	if message != "" {
		step.start = true
		step.kill = &killing{ID: latest.ID, Name: c.Name, Message: message, Reason: reason}
	}
	return step
}
