package kubelet

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/cri"
)

var t0 = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// scene builds a situation from a few words.
type scene struct {
	policy  corev1.RestartPolicy
	inits   string // names; with a trailing + a sidecar
	names   string // of the regular containers; "main" if empty
	sandbox string // "", "ready", "dead", "noip", "two"
	// what the runtime has, newest first: name=running, name=0 (exit code), name=created,
	// name=unknown, old:name=… in an earlier sandbox
	containers string
	probes     map[string]probeResult // "name Liveness"
	backoff    time.Duration
	change     func(*corev1.Pod)
}

func (c scene) build() situation {
	pod := &corev1.Pod{}
	pod.Name, pod.Namespace, pod.UID = "web", "default", "uid"
	pod.Spec.RestartPolicy = c.policy
	if c.policy == "" {
		pod.Spec.RestartPolicy = corev1.RestartPolicyAlways
	}
	always := corev1.ContainerRestartPolicyAlways
	for _, name := range strings.Fields(c.inits) {
		name, sidecar := strings.CutSuffix(name, "+")
		container := corev1.Container{Name: name, Image: "busybox"}
		if sidecar {
			container.RestartPolicy = &always
		}
		pod.Spec.InitContainers = append(pod.Spec.InitContainers, container)
	}
	if c.names == "" {
		c.names = "main"
	}
	for _, name := range strings.Fields(c.names) {
		pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: name, Image: "nginx"})
	}
	if c.change != nil {
		c.change(pod)
	}
	s := situation{pod: pod, observed: c.observe(pod), now: t0.Add(time.Minute)}
	s.probes = func(id string, k probeKind) probeResult { return c.probes[strings.TrimPrefix(id, "id-")+" "+string(k)] }
	if c.backoff > 0 {
		s.backoff = newBackoff(c.backoff, time.Hour, 10*time.Minute)
		for _, container := range pod.Spec.Containers {
			s.backoff.next(backoffKey(&container), t0, t0)
		}
	}
	return s
}

func (c scene) observe(pod *corev1.Pod) observation {
	var o observation
	sandbox := func(id string, attempt uint32, state cri.SandboxState, ips ...string) {
		o.sandboxes = append(o.sandboxes, cri.SandboxStatus{IPs: ips, Sandbox: cri.Sandbox{
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
		status := cri.ContainerStatus{Container: cri.Container{
			ID: "id-" + name, SandboxID: "s1", Metadata: cri.ContainerMetadata{Name: name}, CreatedAt: t0,
		}, StartedAt: t0}
		if old {
			status.SandboxID = "s0"
		}
		if spec, _, ok := findContainer(pod, name); ok {
			status.Annotations = map[string]string{annotationHash: hashOf(spec)}
		}
		switch state {
		case "running":
			status.State = cri.ContainerRunning
		case "created":
			status.State = cri.ContainerCreated
		case "unknown":
			status.State = cri.ContainerUnknown
		default:
			status.State, status.FinishedAt = cri.ContainerExited, t0.Add(55*time.Second)
			_, _ = fmt.Sscan(state, &status.ExitCode)
		}
		o.containers = append(o.containers, status)
	}
	return o
}

// text writes actions down in a line.
func (a actions) text(pod *corev1.Pod) string {
	var words []string
	if a.KillPod {
		words = append(words, "kill-pod")
	}
	if a.CreateSandbox {
		words = append(words, fmt.Sprintf("sandbox#%d", a.Attempt))
	}
	for _, k := range a.Kill {
		words = append(words, fmt.Sprintf("kill(%s: %s)", k.Name, k.Message))
	}
	for _, s := range a.Start {
		verb := "start"
		if !s.Until.IsZero() {
			verb = fmt.Sprintf("wait-%v", s.Delay)
		}
		words = append(words, fmt.Sprintf("%s(%s)", verb, containersOf(pod, s.Kind)[s.Index].Name))
	}
	return strings.Join(words, " ")
}

func TestComputeActions(t *testing.T) {
	never, onFailure := corev1.RestartPolicyNever, corev1.RestartPolicyOnFailure
	for name, c := range map[string]struct {
		scene
		want string
	}{
		"a new pod": {scene{}, "kill-pod sandbox#0 start(main)"},
		"an init container failed after a sidecar, never": {scene{policy: never, sandbox: "ready", inits: "s+ b", containers: "b=1"}, "kill-pod"},
		"a new pod with init":                             {scene{inits: "a b"}, "kill-pod sandbox#0 start(a)"},
		"all is well":                                     {scene{sandbox: "ready", containers: "main=running"}, ""},
		"nothing started yet":                             {scene{sandbox: "ready", names: "main more"}, "start(main) start(more)"},
		"one is missing":                                  {scene{sandbox: "ready", names: "main more", containers: "main=running"}, "start(more)"},
		"exited, always":                                  {scene{sandbox: "ready", containers: "main=0"}, "start(main)"},
		"exited well, on failure":                         {scene{policy: onFailure, sandbox: "ready", containers: "main=0"}, "kill-pod"},
		"exited badly, on failure":                        {scene{policy: onFailure, sandbox: "ready", containers: "main=1"}, "start(main)"},
		"exited badly, never":                             {scene{policy: never, sandbox: "ready", containers: "main=1"}, "kill-pod"},
		"one done, one runs, never":                       {scene{policy: never, sandbox: "ready", names: "main more", containers: "main=0 more=running"}, ""},
		"backing off":                                     {scene{sandbox: "ready", containers: "main=1", backoff: 10 * time.Second}, "wait-10s(main)"},
		"backed off long enough":                          {scene{sandbox: "ready", containers: "main=1", backoff: 5 * time.Second}, "start(main)"},
		"created but never started":                       {scene{sandbox: "ready", containers: "main=created"}, "start(main)"},
		"in an unknown state":                             {scene{sandbox: "ready", containers: "main=unknown"}, `kill(main: Container is in "unknown" state, try killing it before restart) start(main)`},
		"the sandbox died":                                {scene{sandbox: "dead", containers: "main=137"}, "kill-pod sandbox#2 start(main)"},
		"the sandbox died, init":                          {scene{sandbox: "dead", inits: "a", containers: "main=137 a=0"}, "kill-pod sandbox#2 start(a)"},
		"the sandbox died, never":                         {scene{policy: never, sandbox: "dead", containers: "main=137"}, "kill-pod"},
		"the sandbox died before, never":                  {scene{policy: never, sandbox: "dead"}, "kill-pod sandbox#2 start(main)"},
		"the sandbox died, on failure":                    {scene{policy: onFailure, sandbox: "dead", names: "main more", containers: "main=0 more=137"}, "kill-pod sandbox#2 start(more)"},
		"the sandbox died, all succeeded":                 {scene{policy: onFailure, sandbox: "dead", containers: "main=0"}, "kill-pod"},
		"the sandbox lost its address":                    {scene{sandbox: "noip", containers: "main=running"}, "kill-pod sandbox#2 start(main)"},
		"on the host's network":                           {scene{sandbox: "ready", containers: "main=running", change: func(p *corev1.Pod) { p.Spec.HostNetwork = true }}, "kill-pod sandbox#2 start(main)"},
		"two sandboxes":                                   {scene{sandbox: "two", containers: "main=running"}, "kill-pod sandbox#2 start(main)"},
		"liveness failed":                                 {scene{sandbox: "ready", containers: "main=running", probes: map[string]probeResult{"main Liveness": probeFailure}}, "kill(main: Container main failed liveness probe, will be restarted) start(main)"},
		"liveness failed, never":                          {scene{policy: never, sandbox: "ready", names: "main more", containers: "main=running more=running", probes: map[string]probeResult{"main Liveness": probeFailure}}, "kill(main: Container main failed liveness probe)"},
		"start-up failed":                                 {scene{sandbox: "ready", containers: "main=running", probes: map[string]probeResult{"main Startup": probeFailure}}, "kill(main: Container main failed startup probe, will be restarted) start(main)"},
		"first init runs":                                 {scene{sandbox: "ready", inits: "a b", containers: "a=running"}, ""},
		"first init done":                                 {scene{sandbox: "ready", inits: "a b", containers: "a=0"}, "start(b)"},
		"last init done":                                  {scene{sandbox: "ready", inits: "a b", containers: "b=0 a=0"}, "start(main)"},
		"last init done, first collected":                 {scene{sandbox: "ready", inits: "a b", containers: "b=0"}, "start(main)"},
		"init failed":                                     {scene{sandbox: "ready", inits: "a b", containers: "a=1"}, "start(a)"},
		"init failed, never":                              {scene{policy: never, sandbox: "ready", inits: "a b", containers: "a=1"}, "kill-pod"},
		"init created":                                    {scene{sandbox: "ready", inits: "a b", containers: "a=created"}, "start(a)"},
		"init unknown":                                    {scene{sandbox: "ready", inits: "a", containers: "a=unknown"}, `kill(a: Init container is in "unknown" state, try killing it before restart) start(a)`},
		"inits collected, pod runs":                       {scene{sandbox: "ready", inits: "a b", containers: "main=running"}, ""},
		"init of an earlier sandbox":                      {scene{sandbox: "ready", inits: "a b", containers: "old:a=0 old:b=0"}, "start(a)"},
		"sidecar runs, next init":                         {scene{sandbox: "ready", inits: "s+ b", containers: "s=running"}, "start(b)"},
		"sidecars run, main":                              {scene{sandbox: "ready", inits: "s+ u+", containers: "s=running u=running"}, "start(main)"},
		"sidecar died, pod runs":                          {scene{sandbox: "ready", inits: "s+", containers: "main=running s=1"}, "start(s)"},
		"sidecar died while the next ran":                 {scene{sandbox: "ready", inits: "s+ b", containers: "b=running s=0"}, "start(s)"},
		"sidecar awaits its start-up":                     {scene{sandbox: "ready", inits: "s+ b", containers: "s=running", change: withStartup}, ""},
		"sidecar passed its start-up":                     {scene{sandbox: "ready", inits: "s+ b", containers: "s=running", change: withStartup, probes: map[string]probeResult{"s Startup": probeSuccess}}, "start(b)"},
		"sidecar failed its start-up":                     {scene{sandbox: "ready", inits: "s+ b", containers: "s=running", change: withStartup, probes: map[string]probeResult{"s Startup": probeFailure}}, "kill(s: Init container s failed startup probe) start(s)"},
		"sidecar does not keep a pod":                     {scene{policy: never, sandbox: "ready", inits: "s+", containers: "main=0 s=running"}, "kill-pod"},
		"dead sidecar does not keep a pod":                {scene{policy: never, sandbox: "ready", inits: "s+", containers: "main=0 s=0"}, "kill-pod"},
		"an ephemeral container":                          {scene{sandbox: "ready", containers: "main=running", change: withDebugger}, "start(debug)"},
		"an ephemeral container that died":                {scene{sandbox: "ready", containers: "main=running debug=1", change: withDebugger}, ""},
		"a rule restarts it":                              {scene{policy: never, sandbox: "ready", containers: "main=42", change: withRule}, "start(main)"},
		"no rule restarts it":                             {scene{policy: never, sandbox: "ready", containers: "main=41", change: withRule}, "kill-pod"},
	} {
		t.Run(name, func(t *testing.T) {
			s := c.build()
			if got := computeActions(s).text(s.pod); got != c.want {
				t.Errorf("got %q\nwant %q", got, c.want)
			}
		})
	}
}

func withStartup(p *corev1.Pod) { p.Spec.InitContainers[0].StartupProbe = &corev1.Probe{} }

func withDebugger(p *corev1.Pod) {
	p.Spec.EphemeralContainers = []corev1.EphemeralContainer{{
		EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "debug", Image: "busybox"},
	}}
}

func withRule(p *corev1.Pod) {
	never := corev1.ContainerRestartPolicyNever
	p.Spec.Containers[0].RestartPolicy = &never
	p.Spec.Containers[0].RestartPolicyRules = []corev1.ContainerRestartRule{{
		Action: corev1.ContainerRestartRuleActionRestart,
		ExitCodes: &corev1.ContainerRestartRuleOnExitCodes{
			Operator: corev1.ContainerRestartRuleOnExitCodesOpIn, Values: []int32{42},
		},
	}}
}

func TestChangedImageRestartsTheContainer(t *testing.T) {
	s := scene{sandbox: "ready", containers: "main=running"}.build()
	s.pod.Spec.Containers[0].Image = "nginx:2"
	want := "kill(main: Container main definition changed, will be restarted) start(main)"
	if got := computeActions(s).text(s.pod); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestBackoff(t *testing.T) {
	b := newBackoff(10*time.Second, 300*time.Second, 10*time.Minute)
	at := t0
	for i, seconds := range []int{10, 20, 40, 80, 160, 300, 300} {
		want := time.Duration(seconds) * time.Second
		if until, _ := b.since("k", at, at); i == 0 && !until.IsZero() {
			t.Error("the first attempt has to wait")
		}
		b.next("k", at, at)
		if until, delay := b.since("k", at, at); delay != want || !until.Equal(at.Add(delay)) {
			t.Errorf("wait %d is %v until %v, want %v", i, delay, until, want)
		}
		at = at.Add(want)
		if until, _ := b.since("k", at.Add(-want), at); !until.IsZero() {
			t.Errorf("still waiting after %v", want)
		}
	}
	at = at.Add(11 * time.Minute)
	b.next("k", at, at)
	if _, delay := b.since("k", at, at); delay != 10*time.Second {
		t.Errorf("after a long calm the wait is %v", delay)
	}
}

func TestEphemeralContainerThatEndedStaysSo(t *testing.T) {
	pod := &corev1.Pod{Spec: corev1.PodSpec{
		Containers:          []corev1.Container{{Name: "main"}},
		EphemeralContainers: []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "look"}}},
	}}
	o := observation{sandboxes: []cri.SandboxStatus{{Sandbox: cri.Sandbox{ID: "s", State: cri.SandboxReady}, IPs: []string{"10.0.0.1"}}}}
	starts := func() bool {
		a := computeActions(situation{pod: pod, observed: o, backoff: newBackoff(1, 1, 1)})
		return slices.ContainsFunc(a.Start, func(s starting) bool { return s.Kind == ephemeral })
	}
	if !starts() {
		t.Error("a new ephemeral container is not started")
	}
	pod.Status.EphemeralContainerStatuses = []corev1.ContainerStatus{{
		Name: "look", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}},
	}}
	if starts() {
		t.Error("one that has ended is started again")
	}
}
