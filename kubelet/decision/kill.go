package decision

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/cri"
	"github.com/keelson-dev/keelson/podspec/restart"
)

// kill stops a container while its pod keeps running. If a probe has failed, it may have its own grace period.
func (in *Situation) kill(c *corev1.Container, o *cri.ContainerStatus, failed ProbeKind, message string) Kill {
	k := Kill{ID: o.ID, Name: c.Name, Message: message, Grace: in.grace()}
	var probe *corev1.Probe
	switch failed {
	case Liveness:
		probe = c.LivenessProbe
	case Startup:
		probe = c.StartupProbe
	}
	if probe != nil && probe.TerminationGracePeriodSeconds != nil && in.Pod.DeletionGracePeriodSeconds == nil {
		k.Grace = *probe.TerminationGracePeriodSeconds
	}
	return k
}

// endAll stops everything in the pod. Sidecars stop after the regular containers, the last one first (KEP-753).
func (in *Situation) endAll(a *Actions) {
	a.KillPod, a.Kill = true, nil
	for i := range in.Observed.Containers {
		c := &in.Observed.Containers[i]
		if mayRun(c) {
			name := c.Metadata.Name
			a.Kill = append(a.Kill, Kill{ID: c.ID, Name: name, Message: "Stopping container " + name, Grace: in.grace(), After: in.after(name)})
		}
	}
	for _, s := range in.Observed.Sandboxes {
		if s.State == cri.SandboxReady {
			a.StopSandboxes = append(a.StopSandboxes, s.ID)
		}
	}
}

// after returns which of the containers that may be running must end before this one.
func (in *Situation) after(name string) (names []string) {
	inits := in.Pod.Spec.InitContainers
	own := slices.IndexFunc(inits, func(c corev1.Container) bool { return c.Name == name })
	if own < 0 || !restart.Sidecar(&inits[own]) {
		return nil
	}
	add := func(other string) {
		if slices.ContainsFunc(in.Observed.Containers, func(c cri.ContainerStatus) bool { return c.Metadata.Name == other && mayRun(&c) }) {
			names = append(names, other)
		}
	}
	for i := range in.Pod.Spec.Containers {
		add(in.Pod.Spec.Containers[i].Name)
	}
	for i := len(inits) - 1; i > own; i-- {
		if restart.Sidecar(&inits[i]) {
			add(inits[i].Name)
		}
	}
	return names
}
