package decision

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// stateOf reads a container's state: running, started (a sidecar that has), an exit code, an exit code after a > for
// one that waits to restart after it, waiting, or empty for unknown.
func stateOf(text string) corev1.ContainerStatus {
	end := func(code string) *corev1.ContainerStateTerminated {
		return &corev1.ContainerStateTerminated{ExitCode: int32(code[0] - '0')}
	}
	switch {
	case text == "running":
		return corev1.ContainerStatus{State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}
	case text == "started":
		return corev1.ContainerStatus{Started: new(true), State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}
	case text == "starting":
		return corev1.ContainerStatus{Started: new(false), State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}
	case text == "waiting":
		return corev1.ContainerStatus{State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{}}}
	case strings.HasPrefix(text, ">"):
		return corev1.ContainerStatus{State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{}}, LastTerminationState: corev1.ContainerState{Terminated: end(text[1:])}}
	case text == "":
		return corev1.ContainerStatus{}
	}
	return corev1.ContainerStatus{State: corev1.ContainerState{Terminated: end(text)}}
}

// TestPhases: the phase follows from the containers' states and whether they restart, in the order of upstream's rules.
func TestPhases(t *testing.T) {
	const always, onFailure, never = corev1.RestartPolicyAlways, corev1.RestartPolicyOnFailure, corev1.RestartPolicyNever
	const pending, running, succeeded, failed = corev1.PodPending, corev1.PodRunning, corev1.PodSucceeded, corev1.PodFailed
	for _, c := range []struct {
		policy            corev1.RestartPolicy
		inits, containers string // states, separated by commas; + before those of sidecars; ? for one without a status
		over, initialized bool
		want              corev1.PodPhase
	}{
		{always, "", "running", false, false, running},
		{always, "", "running,running", false, false, running},
		{always, "", "running,waiting", false, false, pending},
		{always, "", "running,?", false, false, pending},
		{always, "", "running,", false, false, pending},
		{always, "", "waiting", false, false, pending},
		{always, "", "", false, false, pending},
		{always, "", "?", false, false, pending},
		{always, "", "0", false, false, running},
		{always, "", ">1", false, false, running},
		{always, "", "0,running", false, false, running},
		{always, "", "0,?", false, false, pending},
		{never, "", "0,?", false, false, pending},
		{never, "", "1,", true, false, pending},
		{always, "", "0", true, false, succeeded},
		{always, "", "1", true, false, failed},
		{always, "", "0,0", true, false, succeeded},
		{always, "", "0,1", true, false, failed},
		{always, "", ">0", true, false, failed},
		{onFailure, "", "0", false, false, succeeded},
		{onFailure, "", "1", false, false, running},
		{onFailure, "", "0,1", false, false, running},
		{onFailure, "", "1", true, false, failed},
		{never, "", "0", false, false, succeeded},
		{never, "", "1", false, false, failed},
		{never, "", "0,1", false, false, failed},
		{never, "", "0,running", false, false, running},
		{never, "1", "?", false, false, failed},
		{never, "0", "?", false, false, pending},
		{never, "1", "waiting", false, false, failed},
		{never, ">1", "waiting", false, false, failed},
		{onFailure, "1", "waiting", false, false, pending},
		{always, "1", "running", false, true, running},
		{always, "running", "waiting", false, false, pending},
		{always, "running", "running", false, false, pending},
		{always, "?", "running", false, true, pending},
		{always, "waiting", "running", false, true, pending},
		{always, "", "running", false, true, running},
		{always, "0", "running", false, true, running},
		{always, "+running", "running", false, false, pending},
		{always, "+running", "running", false, true, running},
		{always, "+started", "running", false, false, running},
		{always, "+starting", "running", false, false, pending},
		{always, "+started", "0", true, true, running},
		{always, "+started", "?", false, true, pending},
		{always, "+0", "running", false, false, running},
		{always, "+1", "running", false, true, running},
		{never, "+1", "0", false, true, succeeded},
		{always, "+waiting", "running", false, true, pending},
		{always, "+waiting", "0", true, true, pending},
		{always, "+", "running", false, false, pending},
		{always, "+", "running", false, true, pending},
		{always, "+?", "running", false, true, pending},
		{always, "+>1", "running", false, false, running},
		{never, "+started,1", "waiting", false, false, failed},
	} {
		pod, status := &corev1.Pod{}, corev1.PodStatus{}
		pod.Spec.RestartPolicy = c.policy
		for i, text := range strings.Split(c.inits, ",") {
			if c.inits == "" {
				break
			}
			one := corev1.Container{Name: "i" + string(rune('0'+i))}
			text, sidecar := strings.CutPrefix(text, "+")
			if sidecar {
				one.RestartPolicy = new(corev1.ContainerRestartPolicyAlways)
			}
			pod.Spec.InitContainers = append(pod.Spec.InitContainers, one)
			if text != "?" {
				s := stateOf(text)
				s.Name = one.Name
				status.InitContainerStatuses = append(status.InitContainerStatuses, s)
			}
		}
		for i, text := range strings.Split(c.containers, ",") {
			one := corev1.Container{Name: "c" + string(rune('0'+i))}
			pod.Spec.Containers = append(pod.Spec.Containers, one)
			if text != "?" {
				s := stateOf(text)
				s.Name = one.Name
				status.ContainerStatuses = append(status.ContainerStatuses, s)
			}
		}
		if got := phaseOf(pod, status, c.over, c.initialized); got != c.want {
			t.Errorf("%s, init %q, containers %q, over %t, initialized %t: %s, not %s", c.policy, c.inits, c.containers, c.over, c.initialized, got, c.want)
		}
	}
}

// TestTimesAreCut: every time in a status is truncated to the API's seconds, without a zone.
func TestTimesAreCut(t *testing.T) {
	at := func() metav1.Time {
		return metav1.NewTime(time.Date(2026, 1, 1, 1, 0, 0, 999, time.FixedZone("x", 3600)))
	}
	want := metav1.NewTime(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	state := func() corev1.ContainerState {
		return corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: at()}, Terminated: &corev1.ContainerStateTerminated{StartedAt: at(), FinishedAt: at()}}
	}
	statuses := func() []corev1.ContainerStatus {
		return []corev1.ContainerStatus{{State: state(), LastTerminationState: state()}, {}}
	}
	status := corev1.PodStatus{
		StartTime: new(at()), Conditions: []corev1.PodCondition{{LastTransitionTime: at(), LastProbeTime: at()}, {}},
		InitContainerStatuses: statuses(), ContainerStatuses: statuses(), EphemeralContainerStatuses: statuses(),
	}
	normalize(&status)
	times := []metav1.Time{*status.StartTime, status.Conditions[0].LastTransitionTime, status.Conditions[0].LastProbeTime}
	for _, list := range [][]corev1.ContainerStatus{status.InitContainerStatuses, status.ContainerStatuses, status.EphemeralContainerStatuses} {
		for _, s := range []corev1.ContainerState{list[0].State, list[0].LastTerminationState} {
			times = append(times, s.Running.StartedAt, s.Terminated.StartedAt, s.Terminated.FinishedAt)
		}
	}
	for i, got := range times {
		if got.Time != want.Time {
			t.Errorf("time %d is %s", i, got)
		}
	}
	if !status.Conditions[1].LastProbeTime.IsZero() {
		t.Error("what never was has become a time")
	}
}

// TestWasInitialized: regular containers had their turn if one of them ran, or if the last init container succeeded.
func TestWasInitialized(t *testing.T) {
	for _, c := range []struct {
		inits, containers string
		want              bool
	}{
		{"", "", true}, {"?", "waiting", false}, {"?", "running", true}, {"?", "0", true}, {"?", ">0", true}, {"?", "", true},
		{"0", "waiting", true}, {"1", "waiting", false}, {">0", "waiting", true}, {">1", "waiting", false}, {"running", "waiting", false},
		{"0,1", "waiting", false}, {"1,0", "waiting", true}, {"+started", "waiting", true}, {"+running", "waiting", false}, {"+starting", "waiting", false}, {"+0", "waiting", false}, {"0,+waiting", "waiting", false},
	} {
		pod, status := &corev1.Pod{}, corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{stateOf(c.containers)}}
		for i, text := range strings.Split(c.inits, ",") {
			if c.inits == "" {
				break
			}
			one := corev1.Container{Name: "i" + string(rune('0'+i))}
			text, sidecar := strings.CutPrefix(text, "+")
			if sidecar {
				one.RestartPolicy = new(corev1.ContainerRestartPolicyAlways)
			}
			pod.Spec.InitContainers = append(pod.Spec.InitContainers, one)
			if text != "?" {
				s := stateOf(text)
				s.Name = one.Name
				status.InitContainerStatuses = append(status.InitContainerStatuses, s)
			}
		}
		if got := wasInitialized(pod, &status); got != c.want {
			t.Errorf("init %q, container %q: %t", c.inits, c.containers, got)
		}
	}
}

// TestMergedConditions: the kubelet's own conditions replace existing ones, others' are kept, and that of a disruption
// is added unless there is one.
func TestMergedConditions(t *testing.T) {
	condition := func(kind corev1.PodConditionType, reason string) corev1.PodCondition {
		return corev1.PodCondition{Type: kind, Reason: reason}
	}
	for name, c := range map[string]struct {
		old, own []corev1.PodCondition
		want     string
	}{
		"others'":                       {[]corev1.PodCondition{condition("x/y", "theirs")}, []corev1.PodCondition{condition("x/y", "own"), condition("x/z", "own")}, "x/y=theirs"},
		"own":                           {[]corev1.PodCondition{condition(corev1.PodReady, "old"), condition(corev1.PodInitialized, "old")}, []corev1.PodCondition{condition(corev1.PodReady, "new")}, "Ready=new"},
		"a disruption":                  {nil, []corev1.PodCondition{condition(corev1.DisruptionTarget, "own")}, "DisruptionTarget=own"},
		"a disruption already reported": {[]corev1.PodCondition{condition(corev1.DisruptionTarget, "theirs")}, []corev1.PodCondition{condition(corev1.DisruptionTarget, "own")}, "DisruptionTarget=theirs"},
	} {
		merged := Merge(&corev1.Pod{Status: corev1.PodStatus{Conditions: c.old}}, corev1.PodStatus{Conditions: c.own}, false, time.Time{})
		var got []string
		for _, m := range merged.Conditions {
			got = append(got, string(m.Type)+"="+m.Reason)
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s: %v, not %s", name, got, c.want)
		}
	}
}
