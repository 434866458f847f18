package decision_test

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/kubelet/decision"
)

// conditions renders conditions; normal ones by their names alone.
func conditions(list []corev1.PodCondition) string {
	var words []string
	for _, c := range list {
		word := string(c.Type)
		if c.Status != corev1.ConditionTrue {
			word += "=" + string(c.Status)
		}
		if c.Reason != "" {
			word += "(" + c.Reason + ": " + c.Message + ")"
		}
		words = append(words, word)
	}
	return strings.Join(words, " ")
}

// TestConditions: conditions of others are kept, and the kubelet's own follow from the sandbox, containers and
// readiness gates.
func TestConditions(t *testing.T) {
	gated := func(has ...corev1.PodCondition) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: "x/y"}, {ConditionType: "x/z"}}
			p.Status.Conditions = has
		}
	}
	yes, no := corev1.PodCondition{Type: "x/y", Status: corev1.ConditionTrue}, corev1.PodCondition{Type: "x/z", Status: corev1.ConditionFalse}
	initialized := func(s *corev1.PodStatus) {
		s.Conditions = []corev1.PodCondition{{Type: corev1.PodInitialized, Status: corev1.ConditionTrue}}
	}
	uninitialized := func(s *corev1.PodStatus) {
		s.Conditions = []corev1.PodCondition{{Type: corev1.PodInitialized, Status: corev1.ConditionFalse}}
	}
	evicted := func(in *decision.Situation) {
		in.Disruption = &corev1.PodCondition{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: "TerminationByKubelet", Message: "low"}
	}
	const notReady = "(ContainersNotReady: containers with unready status: "
	for name, c := range map[string]struct {
		scene
		want string
	}{
		"new": {scene{}, "PodReadyToStartContainers=False(PodSandboxNotReady: no pod sandbox exists) Initialized Ready=False" + notReady + "[main]) ContainersReady=False" + notReady + "[main]) PodScheduled"},
		"new, with init": {scene{sandbox: "ready", inits: "a s+ b"}, "PodReadyToStartContainers Initialized=False(ContainersNotInitialized: containers with incomplete status: [a s b]) " +
			"Ready=False" + notReady + "[s main]) ContainersReady=False" + notReady + "[s main]) PodScheduled"},
		"during init": {scene{sandbox: "ready", inits: "a s+ b", containers: "a=0 s=running b=running"}, "PodReadyToStartContainers Initialized=False(ContainersNotInitialized: containers with incomplete status: [b]) " +
			"Ready=False" + notReady + "[main]) ContainersReady=False" + notReady + "[main]) PodScheduled"},
		"a sidecar that is not ready": {scene{sandbox: "ready", inits: "s+", containers: "s=running", change: func(p *corev1.Pod) { p.Spec.InitContainers[0].ReadinessProbe = &corev1.Probe{} }},
			"PodReadyToStartContainers Initialized Ready=False" + notReady + "[s main]) ContainersReady=False" + notReady + "[s main]) PodScheduled"},
		"init is done":          {scene{sandbox: "ready", inits: "a", containers: "a=0"}, "PodReadyToStartContainers Initialized Ready=False" + notReady + "[main]) ContainersReady=False" + notReady + "[main]) PodScheduled"},
		"init again":            {scene{sandbox: "ready", inits: "a", before: initialized}, "PodReadyToStartContainers Initialized Ready=False" + notReady + "[main]) ContainersReady=False" + notReady + "[main]) PodScheduled"},
		"init still":            {scene{sandbox: "ready", inits: "a", before: uninitialized}, "PodReadyToStartContainers Initialized=False(ContainersNotInitialized: containers with incomplete status: [a]) Ready=False" + notReady + "[main]) ContainersReady=False" + notReady + "[main]) PodScheduled"},
		"one runs before init":  {scene{sandbox: "dead", inits: "a s+", containers: "main=running"}, "PodReadyToStartContainers=False(PodSandboxNotReady: pod sandbox is not ready) Initialized Ready=False" + notReady + "[s]) ContainersReady=False" + notReady + "[s]) PodScheduled"},
		"one ended before init": {scene{sandbox: "dead", inits: "a s+", containers: "main=1"}, "PodReadyToStartContainers=False(PodSandboxNotReady: pod sandbox is not ready) Initialized Ready=False" + notReady + "[s main]) ContainersReady=False" + notReady + "[s main]) PodScheduled"},
		"one of two":            {scene{sandbox: "ready", names: "z main", containers: "main=running"}, "PodReadyToStartContainers Initialized Ready=False" + notReady + "[z]) ContainersReady=False" + notReady + "[z]) PodScheduled"},
		"ready":                 {scene{sandbox: "ready", containers: "main=running"}, "PodReadyToStartContainers Initialized Ready ContainersReady PodScheduled"},
		"succeeded":             {scene{policy: never, sandbox: "dead", inits: "s+", containers: "main=0 s=0"}, "PodReadyToStartContainers=False(PodSandboxNotReady: pod sandbox is not ready) Initialized(PodCompleted: ) Ready=False(PodCompleted: ) ContainersReady=False(PodCompleted: ) PodScheduled"},
		"over, succeeded":       {scene{policy: never, sandbox: "dead", inits: "a", containers: "main=0 a=0", stage: decision.Over}, "PodReadyToStartContainers=False(PodSandboxNotReady: pod sandbox is not ready) Initialized(PodCompleted: ) Ready=False(PodCompleted: ) ContainersReady=False(PodCompleted: ) PodScheduled"},
		"succeeded, and lost":   {scene{inits: "a", before: func(s *corev1.PodStatus) { s.Phase = corev1.PodSucceeded }}, "PodReadyToStartContainers=False(PodSandboxNotReady: no pod sandbox exists) Initialized(PodCompleted: ) Ready=False(PodCompleted: ) ContainersReady=False(PodCompleted: ) PodScheduled"},
		"failed":                {scene{policy: never, sandbox: "dead", containers: "main=1"}, "PodReadyToStartContainers=False(PodSandboxNotReady: pod sandbox is not ready) Initialized Ready=False(PodFailed: ) ContainersReady=False(PodFailed: ) PodScheduled"},
		"gates without conditions": {scene{sandbox: "ready", containers: "main=running", change: gated()}, "PodReadyToStartContainers Initialized Ready=False(ReadinessGatesNotReady: corresponding condition of pod readiness gate \"x/y\" does not exist., " +
			"corresponding condition of pod readiness gate \"x/z\" does not exist.) ContainersReady PodScheduled"},
		"a closed gate": {scene{sandbox: "ready", containers: "main=running", change: gated(yes, no)}, "x/y x/z=False PodReadyToStartContainers Initialized " +
			"Ready=False(ReadinessGatesNotReady: the status of pod readiness gate \"x/z\" is not \"True\", but False) ContainersReady PodScheduled"},
		"gates, not ready itself": {scene{sandbox: "ready", change: gated(yes, no)}, "x/y x/z=False PodReadyToStartContainers Initialized Ready=False" + notReady + "[main]) ContainersReady=False" + notReady + "[main]) PodScheduled"},
		"evicted":                 {scene{sandbox: "ready", containers: "main=running", situation: evicted}, "DisruptionTarget(TerminationByKubelet: low) PodReadyToStartContainers Initialized Ready ContainersReady PodScheduled"},
		"evicted again": {scene{sandbox: "ready", containers: "main=running", situation: evicted, change: func(p *corev1.Pod) {
			p.Status.Conditions = []corev1.PodCondition{yes, {Type: corev1.DisruptionTarget, Reason: "other"}, {Type: corev1.PodReady, Reason: "old"}}
		}}, "x/y DisruptionTarget(TerminationByKubelet: low) PodReadyToStartContainers Initialized Ready ContainersReady PodScheduled"},
	} {
		in := c.build()
		in.Pod.Generation = 7
		status := decision.Status(in)
		if got := conditions(status.Conditions); got != c.want {
			t.Errorf("%s: %s\nnot %s", name, got, c.want)
		}
		for _, condition := range status.Conditions {
			own := condition.Type != "x/y" && condition.Type != "x/z" && condition.Type != corev1.DisruptionTarget
			if own != (condition.ObservedGeneration == 7) || own != condition.LastTransitionTime.Equal(&metav1.Time{Time: in.Now}) && len(in.Previous.Conditions) == 0 {
				t.Errorf("%s: %+v", name, condition)
			}
		}
	}
}

// TestTimes: a condition's time is that of its last change, the start time is that of the first decision, all in whole
// seconds.
func TestTimes(t *testing.T) {
	in := scene{sandbox: "ready", containers: "main=running"}.build()
	before := metav1.NewTime(t0.Add(10 * time.Second))
	in.Previous.Conditions = []corev1.PodCondition{
		{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: before},
		{Type: corev1.PodReady, Status: corev1.ConditionFalse, LastTransitionTime: before},
	}
	in.Previous.StartTime, in.Previous.ObservedGeneration, in.Pod.Generation = nil, 4, 3
	in.Now = in.Now.Add(time.Millisecond)
	status := decision.Status(in)
	for _, c := range status.Conditions {
		want := t0.Add(time.Minute)
		if c.Type == corev1.PodScheduled {
			want = before.Time
		}
		if !c.LastTransitionTime.Time.Equal(want) {
			t.Errorf("%s since %v", c.Type, c.LastTransitionTime)
		}
	}
	if !status.StartTime.Time.Equal(t0.Add(time.Minute)) || status.ObservedGeneration != 4 {
		t.Errorf("started at %v, generation %d", status.StartTime, status.ObservedGeneration)
	}
	in.Previous.StartTime = &before
	if got := decision.Status(in).StartTime; !got.Equal(&before) || got == in.Previous.StartTime {
		t.Errorf("started at %v", got)
	}
}

// TestContainerStatuses: the status of a container follows from its instances.
func TestContainerStatuses(t *testing.T) {
	in := scene{sandbox: "ready", names: "z main", inits: "a", containers: "main=running#1 main=3 z=0 a=0"}.build()
	list := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}
	in.Pod.Spec.EphemeralContainers = []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "debug"}}}
	in.Pod.Spec.Containers[0].Resources.Requests = corev1.ResourceList{}
	in.Pod.Spec.Containers[1].Resources = corev1.ResourceRequirements{Requests: list, Limits: list}
	in.Observed.Containers[0].Image.Image, in.Observed.Containers[0].ImageRef = "nginx@sha256:1", "sha256:1"
	in.Observed.Containers[1].Reason, in.Observed.Containers[1].Message = "Error", strings.Repeat("x", 5000)
	in.Observed.Containers[2].Image.Image, in.Observed.Containers[2].Image.UserSpecified = "nginx@sha256:1", "nginx"
	in.Observed.Containers[2].StartedAt, in.Observed.Containers[2].FinishedAt = time.Time{}, time.Time{}
	status := decision.Status(in)
	if len(status.ContainerStatuses) != 2 || status.ContainerStatuses[0].Name != "main" {
		t.Fatalf("%+v", status.ContainerStatuses) // in the order of their names
	}
	running, ended, init := status.ContainerStatuses[0], status.ContainerStatuses[1], status.InitContainerStatuses[0]
	last := running.LastTerminationState.Terminated
	if running.ContainerID != "simulated://id-main" || running.Image != "nginx@sha256:1" || running.ImageID != "sha256:1" || running.RestartCount != 1 ||
		!running.State.Running.StartedAt.Time.Equal(t0) || !reflect.DeepEqual(running.AllocatedResources, list) || !reflect.DeepEqual(running.Resources.Limits, list) {
		t.Errorf("%+v", running)
	}
	if last == nil || last.ExitCode != 3 || last.Reason != "Error" || len(last.Message) != 3072 || last.ContainerID != "simulated://id-main" || !last.FinishedAt.Time.Equal(t0.Add(55*time.Second)) {
		t.Errorf("%+v", last) // a quarter of the room for messages
	}
	if ended.Image != "nginx" || ended.AllocatedResources != nil || !ended.State.Terminated.StartedAt.Time.Equal(time.Unix(0, 0)) || !ended.State.Terminated.FinishedAt.Time.Equal(time.Unix(0, 0)) || ended.Ready || *ended.Started {
		t.Errorf("%+v", ended)
	}
	if !init.Ready || *init.Started {
		t.Errorf("%+v", init)
	}
	alone := scene{sandbox: "ready", containers: "main=1"}.build()
	alone.Observed.Containers[0].Message = strings.Repeat("x", 13000)
	status = decision.Status(alone)
	if got := status.ContainerStatuses[0].State.Terminated.Message; len(got) != 12288 || status.InitContainerStatuses != nil || status.EphemeralContainerStatuses != nil {
		t.Errorf("a message of %d bytes in %+v", len(got), status)
	}
}

// TestWhatWasSaid: without an instance in the runtime, a container's previous status counts.
func TestWhatWasSaid(t *testing.T) {
	ended := &corev1.ContainerStateTerminated{ExitCode: 3}
	before := func(s corev1.ContainerStatus) func(*corev1.PodStatus) {
		return func(p *corev1.PodStatus) {
			s.Name, s.ContainerID, s.RestartCount = "main", "simulated://id-main", 2
			p.ContainerStatuses = []corev1.ContainerStatus{s}
		}
	}
	for name, c := range map[string]struct {
		scene
		want string
	}{
		"it waited":          {scene{before: before(corev1.ContainerStatus{State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "x"}}})}, "main=ContainerCreating#2"},
		"it waited again":    {scene{before: before(corev1.ContainerStatus{LastTerminationState: corev1.ContainerState{Terminated: ended}})}, "main=ContainerCreating<3#2"},
		"it ran":             {scene{before: before(corev1.ContainerStatus{State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}})}, "main=ContainerCreating<137#3"},
		"it ran again":       {scene{before: before(corev1.ContainerStatus{State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}, LastTerminationState: corev1.ContainerState{Terminated: ended}})}, "main=ContainerCreating<3#2"},
		"it ended":           {scene{before: before(corev1.ContainerStatus{State: corev1.ContainerState{Terminated: ended}})}, "main=3#2"},
		"unchanged":          {scene{containers: "main=3#2", before: before(corev1.ContainerStatus{State: corev1.ContainerState{Terminated: ended}})}, "main=3#2"},
		"still unchanged":    {scene{containers: "main=3#2", before: before(corev1.ContainerStatus{LastTerminationState: corev1.ContainerState{Terminated: ended}})}, "main=3<3#2"},
		"it runs again":      {scene{containers: "main=running#2", before: before(corev1.ContainerStatus{State: corev1.ContainerState{Terminated: ended}})}, "main=running#3*"},
		"it runs on":         {scene{containers: "main=running#2", before: before(corev1.ContainerStatus{State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}})}, "main=running#2*"},
		"it runs as another": {scene{containers: "main=running#3", before: before(corev1.ContainerStatus{State: corev1.ContainerState{Terminated: ended}})}, "main=running#3*"},
		"it runs as a later": {scene{containers: "main=running#5", before: before(corev1.ContainerStatus{State: corev1.ContainerState{Terminated: ended}})}, "main=running#5*"},
		"it waits, created":  {scene{containers: "main=created#3", before: before(corev1.ContainerStatus{State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}})}, "main=#3"},
		"created, it never ran": {scene{containers: "main=created", before: func(p *corev1.PodStatus) {
			p.ContainerStatuses = []corev1.ContainerStatus{{Name: "main", ContainerID: "simulated://other", LastTerminationState: corev1.ContainerState{Terminated: ended}}}
		}}, "main=<3"},
		"unknown, and waited": {scene{containers: "main=unknown#3", before: before(corev1.ContainerStatus{})}, "main=#3"},
		"unknown, and ran":    {scene{containers: "main=unknown#2", before: before(corev1.ContainerStatus{State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}})}, "main=137#3"},
	} {
		c.sandbox = "ready"
		status := decision.Status(c.build())
		if _, got, _ := strings.Cut(said(status), " "); got != c.want {
			t.Errorf("%s: %s, not %s", name, got, c.want)
		}
	}
}

// TestLostInitContainers: an init container that the runtime has lost was done if a regular container exists; its
// reported termination is kept.
func TestLostInitContainers(t *testing.T) {
	in := scene{sandbox: "ready", inits: "a b s+", containers: "main=1 s=running"}.build()
	in.Previous.InitContainerStatuses = []corev1.ContainerStatus{{Name: "b", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 0, Reason: "Said"}}}}
	got := decision.Status(in).InitContainerStatuses
	if a, b := got[0].State.Terminated, got[1].State.Terminated; a == nil || a.Reason != "Completed" || a.Message == "" || b == nil || b.Reason != "Said" || got[2].State.Running == nil {
		t.Errorf("%+v", got)
	}
}

// TestAddresses: a pod has its sandbox's addresses, or its node's on the host network; a terminating one keeps those
// that it had.
func TestAddresses(t *testing.T) {
	onHost := func(p *corev1.Pod) { p.Spec.HostNetwork = true }
	had := func(s *corev1.PodStatus) { s.PodIPs = []corev1.PodIP{{IP: "10.0.0.5"}, {IP: "fd00::5"}} }
	for name, c := range map[string]struct {
		scene
		want string
	}{
		"none":                    {scene{}, " "},
		"the sandbox's":           {scene{sandbox: "ready"}, "10.0.0.9 10.0.0.9"},
		"the sandbox's, ending":   {scene{sandbox: "ready", stage: decision.Terminating, before: had}, "10.0.0.9 10.0.0.9"},
		"lost":                    {scene{sandbox: "dead", before: had}, " "},
		"lost, ending":            {scene{sandbox: "dead", before: had, stage: decision.Terminating}, "10.0.0.5 10.0.0.5,fd00::5"},
		"lost, over":              {scene{before: had, stage: decision.Over}, "10.0.0.5 10.0.0.5,fd00::5"},
		"the node's":              {scene{change: onHost}, "192.168.0.1 192.168.0.1,fd00::1"},
		"its own on the host's":   {scene{sandbox: "ready", change: onHost}, "10.0.0.9 10.0.0.9"},
		"the node's, which it is": {scene{change: onHost, before: had, stage: decision.Terminating}, "10.0.0.5 10.0.0.5,fd00::5"},
	} {
		in := c.build()
		in.Node.HostIPs = []string{"192.168.0.1", "fd00::1"}
		status := decision.Status(in)
		var ips []string
		for _, ip := range status.PodIPs {
			ips = append(ips, ip.IP)
		}
		if got := status.PodIP + " " + strings.Join(ips, ","); got != c.want || status.HostIP != "192.168.0.1" || len(status.HostIPs) != 2 {
			t.Errorf("%s: %q, on %v", name, got, status.HostIPs)
		}
	}
}

// TestReasons: while a pod's phase is unchanged, so are its reason and message, which others may have set.
func TestReasons(t *testing.T) {
	for name, c := range map[string]struct {
		before func(*corev1.PodStatus)
		change func(*corev1.Pod)
		want   string
	}{
		"reported before":    {func(s *corev1.PodStatus) { s.Phase, s.Reason, s.Message = corev1.PodRunning, "A", "a" }, func(p *corev1.Pod) { p.Status.Reason, p.Status.Message = "B", "b" }, "A a"},
		"reported by others": {func(s *corev1.PodStatus) { s.Phase, s.Reason, s.Message = corev1.PodRunning, "", "" }, func(p *corev1.Pod) { p.Status.Reason, p.Status.Message = "B", "b" }, "B b"},
		"of another phase":   {func(s *corev1.PodStatus) { s.Phase, s.Reason, s.Message = corev1.PodPending, "A", "a" }, func(p *corev1.Pod) { p.Status.Reason, p.Status.Message = "B", "b" }, " "},
		"the deadline's":     {func(s *corev1.PodStatus) { s.Phase, s.Reason, s.Message = corev1.PodRunning, "A", "a" }, func(p *corev1.Pod) { p.Spec.ActiveDeadlineSeconds = new(int64) }, decision.ReasonDeadlineExceeded + " " + decision.MessageDeadlineExceeded},
		"no start, no end":   {func(s *corev1.PodStatus) { s.StartTime = nil }, func(p *corev1.Pod) { p.Spec.ActiveDeadlineSeconds = new(int64) }, " "},
		"the API's start": {func(s *corev1.PodStatus) { s.StartTime = nil }, func(p *corev1.Pod) {
			p.Spec.ActiveDeadlineSeconds, p.Status.StartTime = new(int64), &metav1.Time{Time: t0}
		}, decision.ReasonDeadlineExceeded + " " + decision.MessageDeadlineExceeded},
		"one ended already": {func(s *corev1.PodStatus) { s.Phase, s.Reason = corev1.PodFailed, "A" }, func(p *corev1.Pod) { p.Spec.ActiveDeadlineSeconds = new(int64) }, "A "},
	} {
		status := decision.Status(scene{sandbox: "ready", containers: "main=running", before: c.before, change: c.change}.build())
		if got := status.Reason + " " + status.Message; got != c.want {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// TestOver: containers that never started have no termination, except for the first init container.
func TestOver(t *testing.T) {
	for name, c := range map[string]struct {
		scene
		want string
	}{
		"nothing started":       {scene{inits: "a b"}, "a=137 b=PodInitializing main=PodInitializing"},
		"the second runs":       {scene{inits: "a b c", sandbox: "dead", containers: "b=running a=0"}, "a=0 b=137+ c=PodInitializing main=PodInitializing"},
		"the second ended once": {scene{inits: "a b c", sandbox: "dead", containers: "b=created b=1 a=0"}, "a=0 b=137<1 c=PodInitializing main=PodInitializing"},
		"all are done":          {scene{inits: "a", sandbox: "dead", containers: "a=0"}, "a=0 main=137"},
	} {
		c.stage = decision.Over
		if phase, got, _ := strings.Cut(said(decision.Status(c.build())), " "); got != c.want || phase != "Failed" {
			t.Errorf("%s: %s %s", name, phase, got)
		}
	}
}

// TestResources: pod-level resources are reported, if there are any.
func TestResources(t *testing.T) {
	list := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}
	for name, r := range map[string]corev1.ResourceRequirements{"requests": {Requests: list}, "limits": {Limits: list}, "both": {Requests: list, Limits: list}, "none": {}} {
		in := scene{change: func(p *corev1.Pod) { p.Spec.Containers[0].Resources = r }}.build()
		status := decision.Status(in)
		if (status.Resources != nil) != (name != "none") || len(status.AllocatedResources) != len(r.Requests) {
			t.Errorf("%s: %+v, %v", name, status.Resources, status.AllocatedResources)
		}
	}
}

// TestMerge: everything that the kubelet owns replaces what is in the API; the rest is kept.
func TestMerge(t *testing.T) {
	own := corev1.PodStatus{
		ObservedGeneration: 2, Phase: corev1.PodRunning, Reason: "r", Message: "m", HostIP: "h", HostIPs: []corev1.HostIP{{IP: "h"}}, PodIP: "p", PodIPs: []corev1.PodIP{{IP: "p"}},
		StartTime: &metav1.Time{Time: t0}, QOSClass: corev1.PodQOSBurstable,
		InitContainerStatuses: []corev1.ContainerStatus{{Name: "i"}}, ContainerStatuses: []corev1.ContainerStatus{{Name: "c"}}, EphemeralContainerStatuses: []corev1.ContainerStatus{{Name: "e"}},
		Resources: &corev1.ResourceRequirements{}, AllocatedResources: corev1.ResourceList{},
	}
	pod := &corev1.Pod{Status: corev1.PodStatus{NominatedNodeName: "n", Phase: corev1.PodPending}}
	want := *own.DeepCopy()
	want.NominatedNodeName = "n"
	if got := decision.Merge(pod, own, true, t0); !reflect.DeepEqual(got, want) {
		t.Errorf("%+v\nnot %+v", got, want)
	}
}

// TestMergedEnds: no pod is reported as ended while it may run, and no pod that has ended as ready.
func TestMergedEnds(t *testing.T) {
	now := t0.Add(time.Second + time.Millisecond)
	ready := []corev1.PodCondition{
		{Type: corev1.PodReady, Status: corev1.ConditionTrue, Reason: "x", Message: "x"}, {Type: corev1.ContainersReady, Status: corev1.ConditionTrue},
		{Type: corev1.PodInitialized, Status: corev1.ConditionTrue},
	}
	for name, c := range map[string]struct {
		old, own corev1.PodPhase
		mayRun   bool
		want     string
	}{
		"running":            {corev1.PodPending, corev1.PodRunning, true, "Running(own) Ready(x: x) ContainersReady Initialized"},
		"ended, and may run": {corev1.PodRunning, corev1.PodFailed, true, "Running(old) Ready(x: x) ContainersReady Initialized"},
		"failed":             {corev1.PodRunning, corev1.PodFailed, false, "Failed(own) Ready=False(PodFailed: ) ContainersReady=False(PodFailed: ) Initialized"},
		"succeeded":          {corev1.PodRunning, corev1.PodSucceeded, false, "Succeeded(own) Ready=False(PodCompleted: ) ContainersReady=False(PodCompleted: ) Initialized"},
		"reported as ended":  {corev1.PodFailed, corev1.PodFailed, true, "Failed(own) Ready=False(PodFailed: ) ContainersReady=False(PodFailed: ) Initialized"},
	} {
		pod := &corev1.Pod{Status: corev1.PodStatus{Phase: c.old, Reason: "old"}}
		got := decision.Merge(pod, corev1.PodStatus{Phase: c.own, Reason: "own", Conditions: slices.Clone(ready)}, c.mayRun, now)
		if line := fmt.Sprintf("%s(%s) %s", got.Phase, got.Reason, conditions(got.Conditions)); line != c.want {
			t.Errorf("%s: %s", name, line)
		}
		for _, condition := range got.Conditions {
			if changed := condition.Status != corev1.ConditionTrue; changed != condition.LastTransitionTime.Time.Equal(t0.Add(time.Second)) {
				t.Errorf("%s: %+v", name, condition)
			}
		}
	}
	unready := corev1.PodStatus{Phase: corev1.PodFailed, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse, Reason: "why"}}}
	if got := conditions(decision.Merge(&corev1.Pod{}, unready, false, now).Conditions); got != "Ready=False(why: )" {
		t.Error(got)
	}
}

func TestRefused(t *testing.T) {
	pod := &corev1.Pod{Status: corev1.PodStatus{QOSClass: corev1.PodQOSBurstable}}
	pod.Generation = 5
	want := corev1.PodStatus{
		ObservedGeneration: 5, QOSClass: corev1.PodQOSBurstable, Phase: corev1.PodFailed, Reason: "OutOfcpu",
		Message: "Pod was rejected: none left", StartTime: &metav1.Time{Time: t0.Add(time.Second)},
	}
	if got := decision.Refused(pod, "OutOfcpu", "none left", t0.Add(time.Second+time.Millisecond)); !reflect.DeepEqual(got, want) {
		t.Errorf("%+v", got)
	}
	pod.Status.StartTime = &metav1.Time{Time: t0.Add(-time.Hour)}
	if got := decision.Refused(pod, "", "", t0).StartTime; !got.Time.Equal(t0.Add(-time.Hour)) || got == pod.Status.StartTime {
		t.Errorf("started at %v", got)
	}
}

// TestChanges: which changes of a pod are relevant, and which are urgent.
func TestChanges(t *testing.T) {
	pod := func(change ...func(*corev1.Pod)) *corev1.Pod {
		p := &corev1.Pod{}
		p.Labels = map[string]string{"a": "b"}
		for _, c := range change {
			c(p)
		}
		return p
	}
	for name, c := range map[string]struct {
		before, after    *corev1.Pod
		relevant, urgent bool
	}{
		"nothing":                      {pod(), pod(), false, false},
		"its status":                   {pod(), pod(func(p *corev1.Pod) { p.Status.Phase = corev1.PodRunning }), false, false},
		"the kubelet's ready":          {pod(), pod(func(p *corev1.Pod) { p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady}} }), false, false},
		"a condition":                  {pod(), pod(func(p *corev1.Pod) { p.Status.Conditions = []corev1.PodCondition{{Type: "x/y"}} }), true, false},
		"its end":                      {pod(), pod(func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }), true, false},
		"its spec":                     {pod(), pod(func(p *corev1.Pod) { p.Generation = 2 }), true, false},
		"a label":                      {pod(), pod(func(p *corev1.Pod) { p.Labels = nil }), true, false},
		"an annotation":                {pod(), pod(func(p *corev1.Pod) { p.Annotations = map[string]string{"a": "b"} }), true, false},
		"its deletion":                 {pod(), pod(deleted(30)), true, true},
		"deleted as it was":            {pod(deleted(30)), pod(deleted(30)), false, false},
		"deleted sooner":               {pod(deleted(30)), pod(deleted(3)), true, true},
		"deleted later":                {pod(deleted(3)), pod(deleted(30)), false, false},
		"a shorter grace period alone": {pod(), pod(func(p *corev1.Pod) { p.DeletionGracePeriodSeconds = new(int64) }), false, false},
	} {
		if got := decision.Relevant(c.before, c.after); got != c.relevant {
			t.Errorf("%s is of concern: %t", name, got)
		}
		if got := decision.Urgent(c.before, c.after); got != c.urgent {
			t.Errorf("%s is urgent: %t", name, got)
		}
	}
}

func TestContainers(t *testing.T) {
	pod := scene{inits: "a", names: "main", change: withDebugger}.build().Pod
	for name, kind := range map[string]decision.Kind{"a": decision.Initial, "main": decision.Regular, "debug": decision.Ephemeral} {
		c, k, ok := decision.Container(pod, name)
		if !ok || c.Name != name || k != kind || decision.Containers(pod, kind)[0].Name != name {
			t.Errorf("%s: %v, %d, %t", name, c, k, ok)
		}
	}
	if c, _, ok := decision.Container(pod, "other"); c != nil || ok {
		t.Errorf("%+v", c)
	}
	if got := decision.Describe(pod); got != "web_default(uid)" {
		t.Error(got)
	}
}
