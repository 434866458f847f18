package decision_test

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/cri"
	"github.com/keelson-dev/keelson/kubelet/decision"
)

var t0 = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// scene describes a situation in a few words, a minute after t0.
type scene struct {
	policy corev1.RestartPolicy // Always if empty
	// Containers by their names; "main" if there are no regular ones. A + after a name makes a sidecar; after a colon is
	// the container's own restart policy, after a ! the exit code of a rule that restarts it, after a !! of one that
	// restarts all containers.
	inits, names string
	sandbox      string // "", "ready", "dead", "noip", "two"
	// The runtime's containers, newest first: name=running, name=created, name=unknown, or name= an exit code, each
	// followed by # and the attempt unless that is 0; the prefix old: puts it in an earlier sandbox.
	containers string
	probes     map[string]decision.ProbeResult // "name Liveness"
	waiting    map[string]decision.Waiting
	backoff    time.Duration // of each container, since t0
	stage      decision.Stage
	change     func(*corev1.Pod)
	before     func(*corev1.PodStatus)
	situation  func(*decision.Situation)
}

func (c scene) build() decision.Situation {
	pod := &corev1.Pod{}
	pod.Name, pod.Namespace, pod.UID = "web", "default", "uid"
	pod.Spec.RestartPolicy = c.policy
	if c.policy == "" {
		pod.Spec.RestartPolicy = corev1.RestartPolicyAlways
	}
	if c.names == "" {
		c.names = "main"
	}
	for _, word := range strings.Fields(c.inits) {
		pod.Spec.InitContainers = append(pod.Spec.InitContainers, container(word, "busybox"))
	}
	for _, word := range strings.Fields(c.names) {
		pod.Spec.Containers = append(pod.Spec.Containers, container(word, "nginx"))
	}
	if c.change != nil {
		c.change(pod)
	}
	in := decision.Situation{
		Pod: pod, Stage: c.stage, Previous: *pod.Status.DeepCopy(), Observed: c.observe(pod), Waiting: c.waiting, Now: t0.Add(time.Minute),
		Node: decision.Node{HostIPs: []string{"192.168.0.1"}, Runtime: "simulated"},
	}
	in.Previous.StartTime = &metav1.Time{Time: t0}
	if c.before != nil {
		c.before(&in.Previous)
	}
	in.Probes = func(id string, k decision.ProbeKind) decision.ProbeResult {
		return c.probes[strings.TrimPrefix(id, "id-")+" "+string(k)]
	}
	if c.backoff > 0 {
		in.Backoff = decision.NewBackoff(c.backoff, time.Hour, 10*time.Minute)
		for _, list := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
			for i := range list {
				in.Backoff.Next(decision.BackoffKey(&list[i]), t0, t0)
			}
		}
	}
	if c.situation != nil {
		c.situation(&in)
	}
	return in
}

// container is one of a scene.
func container(word, image string) corev1.Container {
	rest, code, ruled := strings.Cut(word, "!")
	name, policy, own := strings.Cut(rest, ":")
	name, sidecar := strings.CutSuffix(name, "+")
	c := corev1.Container{Name: name, Image: image}
	if sidecar {
		c.RestartPolicy = new(corev1.ContainerRestartPolicyAlways)
	}
	if own {
		c.RestartPolicy = new(corev1.ContainerRestartPolicy(policy))
	}
	if ruled {
		action := corev1.ContainerRestartRuleActionRestart
		code, all := strings.CutPrefix(code, "!")
		if all {
			action = corev1.ContainerRestartRuleActionRestartAllContainers
		}
		n, _ := strconv.Atoi(code)
		c.RestartPolicyRules = []corev1.ContainerRestartRule{{Action: action, ExitCodes: &corev1.ContainerRestartRuleOnExitCodes{
			Operator: corev1.ContainerRestartRuleOnExitCodesOpIn, Values: []int32{int32(n)},
		}}}
	}
	return c
}

func (c scene) observe(pod *corev1.Pod) decision.Observation {
	var o decision.Observation
	sandbox := func(id string, attempt uint32, state cri.SandboxState, ips ...string) {
		o.Sandboxes = append(o.Sandboxes, cri.SandboxStatus{IPs: ips, Sandbox: cri.Sandbox{
			ID: id, State: state, Metadata: cri.SandboxMetadata{Attempt: attempt}, CreatedAt: t0,
		}})
	}
	switch c.sandbox {
	case "ready":
		sandbox("s1", 1, cri.SandboxReady, "10.0.0.9")
	case "dead":
		sandbox("s1", 1, cri.SandboxNotReady)
	case "noip":
		sandbox("s1", 1, cri.SandboxReady)
	case "two":
		sandbox("s1", 1, cri.SandboxReady, "10.0.0.9")
		sandbox("s0", 0, cri.SandboxReady, "10.0.0.8")
	}
	for _, word := range strings.Fields(c.containers) {
		word, old := strings.CutPrefix(word, "old:")
		name, state, _ := strings.Cut(word, "=")
		state, attempt, _ := strings.Cut(state, "#")
		n, _ := strconv.Atoi(attempt)
		status := cri.ContainerStatus{Container: cri.Container{
			ID: "id-" + name, SandboxID: "s1", Metadata: cri.ContainerMetadata{Name: name, Attempt: uint32(n)}, CreatedAt: t0,
		}, StartedAt: t0}
		if old {
			status.SandboxID = "s0"
		}
		if spec, _, ok := decision.Container(pod, name); ok {
			status.Annotations = map[string]string{decision.AnnotationHash: decision.Hash(spec)}
		}
		switch state {
		case "running":
			status.State = cri.ContainerRunning
		case "created":
			status.State = cri.ContainerCreated
		case "unknown":
			status.State = cri.ContainerUnknown
		default:
			code, _ := strconv.Atoi(state)
			status.State, status.FinishedAt, status.ExitCode = cri.ContainerExited, t0.Add(55*time.Second), int32(code)
		}
		o.Containers = append(o.Containers, status)
	}
	return o
}

// todo renders actions as a line.
func todo(a decision.Actions, pod *corev1.Pod) string {
	var words []string
	if a.KillPod {
		words = append(words, "kill-pod")
	}
	if a.CreateSandbox {
		words = append(words, fmt.Sprintf("sandbox#%d", a.Attempt))
	}
	if !a.KillPod {
		for _, k := range a.Kill {
			words = append(words, fmt.Sprintf("kill(%s: %s)", k.Name, k.Message))
		}
	}
	for _, s := range a.Start {
		verb := "start"
		if !s.Until.IsZero() {
			verb = fmt.Sprintf("wait-%v", s.Delay)
		}
		words = append(words, fmt.Sprintf("%s(%s)", verb, decision.Containers(pod, s.Kind)[s.Index].Name))
	}
	return strings.Join(words, " ")
}

// said renders the main parts of a status as a line: the phase and its reason, and for each container its state, its
// restarts after a #, and whether it has started (+) or is ready (*).
func said(status corev1.PodStatus) string {
	words := []string{string(status.Phase)}
	if status.Reason != "" {
		words[0] += "(" + status.Reason + ")"
	}
	for _, list := range [][]corev1.ContainerStatus{status.InitContainerStatuses, status.ContainerStatuses, status.EphemeralContainerStatuses} {
		for _, s := range list {
			word := s.Name + "="
			switch {
			case s.State.Running != nil:
				word += "running"
			case s.State.Terminated != nil:
				word += strconv.Itoa(int(s.State.Terminated.ExitCode))
			case s.State.Waiting != nil:
				word += s.State.Waiting.Reason
			default:
				word += "stateless"
			}
			if s.LastTerminationState.Terminated != nil {
				word += "<" + strconv.Itoa(int(s.LastTerminationState.Terminated.ExitCode))
			}
			if s.RestartCount > 0 {
				word += fmt.Sprintf("#%d", s.RestartCount)
			}
			switch {
			case s.Ready && s.State.Running != nil:
				word += "*"
			case s.Started != nil && *s.Started:
				word += "+"
			}
			words = append(words, word)
		}
	}
	return strings.Join(words, " ")
}
