package decision

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/cri"
	"github.com/keelson-dev/keelson/podspec/restart"
)

// initActions decides about the init containers and reports whether the regular ones may start. It goes from the last
// to the first: if a later one has started, the earlier ones are done, even if the runtime no longer has them.
func (in *Situation) initActions(a *Actions) (initialized bool) {
	containers := in.Pod.Spec.InitContainers
	if len(containers) == 0 {
		return true
	}
	initialized = slices.ContainsFunc(in.Pod.Spec.Containers, func(c corev1.Container) bool {
		return in.Observed.Active(c.Name) != nil
	})
	passed := initialized // whether this container has had its turn before
	var start []int
	for i := len(containers) - 1; i >= 0; i-- {
		c := &containers[i]
		latest := in.Observed.Active(c.Name)
		if latest == nil {
			if passed && restart.Sidecar(c) {
				start = append(start, i)
			}
			continue
		}
		if passed && !restart.Sidecar(c) {
			continue
		}
		step := in.initStep(i, latest)
		if latest.State == cri.ContainerRunning && step.kill == nil && !step.unstarted && in.resize(c, latest, a) {
			step.start = true
		}
		if step.failed {
			a.KillPod = true
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
		a.Start = append(a.Start, Start{Kind: Initial, Index: i})
	}
	return initialized
}

// initStep is what follows from an init container's latest instance.
type initStep struct {
	done   bool // the next one may start
	start  bool // it has to start (again)
	failed bool // it failed for good
	kill   *Kill
	// unstarted is set for a sidecar of which it is not known yet whether it has started.
	unstarted bool
}

func (in *Situation) initStep(i int, latest *cri.ContainerStatus) initStep {
	c := &in.Pod.Spec.InitContainers[i]
	switch latest.State {
	case cri.ContainerCreated:
		return initStep{start: true} // its start failed
	case cri.ContainerRunning:
		if !restart.Sidecar(c) {
			return initStep{}
		}
		return in.sidecarStep(c, latest)
	case cri.ContainerExited:
		switch {
		case restart.Sidecar(c):
			return initStep{start: true}
		case latest.ExitCode == 0:
			return initStep{done: true}
		default:
			again := in.shouldRun(c)
			return initStep{start: again, failed: !again}
		}
	default:
		if restart.Policy(&in.Pod.Spec, c) == corev1.RestartPolicyNever { // rules need an exit code
			return initStep{failed: true}
		}
		k := in.kill(c, latest, "", fmt.Sprintf("Init container is in %q state, try killing it before restart", latest.State))
		return initStep{start: true, kill: &k}
	}
}

// sidecarStep decides about a running sidecar: it is done once started, and restarted if unfit. One that could not
// start is not done, whatever else is wrong with it.
func (in *Situation) sidecarStep(c *corev1.Container, latest *cri.ContainerStatus) initStep {
	if c.StartupProbe != nil {
		switch in.probe(latest.ID, Startup) {
		case ProbeUnknown:
			return initStep{unstarted: true}
		case ProbeFailure:
			k := in.kill(c, latest, Startup, fmt.Sprintf("Init container %s failed startup probe", c.Name))
			return initStep{start: true, kill: &k}
		}
	}
	step := initStep{done: true}
	if message, failed, _ := in.mustStop(c, latest, "Init container"); message != "" {
		k := in.kill(c, latest, failed, message)
		step.start, step.kill = true, &k
	}
	return step
}
