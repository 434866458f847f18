package replicas_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/controllers/internal/replicas"
)

func replicaSet(replicas int32) *appsv1.ReplicaSet {
	labels := map[string]string{"app": "web"}
	return &appsv1.ReplicaSet{Spec: appsv1.ReplicaSetSpec{
		Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: labels},
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}},
	}}
}

// podOpt makes a ready, running pod on node n, an hour old, into another.
type podOpt func(*corev1.Pod)

func rankPod(name string, now time.Time, opts ...podOpt) *corev1.Pod {
	hour := metav1.NewTime(now.Add(-time.Hour))
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), CreationTimestamp: hour, Annotations: map[string]string{}},
		Spec:       corev1.PodSpec{NodeName: "n"},
		Status: corev1.PodStatus{
			Phase:             corev1.PodRunning,
			Conditions:        []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: hour}},
			ContainerStatuses: []corev1.ContainerStatus{{Name: "c"}},
		},
	}
	for _, o := range opts {
		o(p)
	}
	return p
}

func TestVictims(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	pod := func(name string, opts ...podOpt) *corev1.Pod { return rankPod(name, now, opts...) }
	unassigned := func(p *corev1.Pod) { p.Spec.NodeName = "" }
	node := func(n string) podOpt { return func(p *corev1.Pod) { p.Spec.NodeName = n } }
	phase := func(f corev1.PodPhase) podOpt { return func(p *corev1.Pod) { p.Status.Phase = f } }
	unready := func(p *corev1.Pod) { p.Status.Conditions[0].Status = corev1.ConditionFalse }
	cost := func(c string) podOpt { return func(p *corev1.Pod) { p.Annotations[corev1.PodDeletionCost] = c } }
	readyFor := func(d time.Duration) podOpt {
		return func(p *corev1.Pod) { p.Status.Conditions[0].LastTransitionTime = metav1.NewTime(now.Add(-d)) }
	}
	sinceUnknown := func(p *corev1.Pod) { p.Status.Conditions[0].LastTransitionTime = metav1.Time{} }
	restarts := func(n int32) podOpt { return func(p *corev1.Pod) { p.Status.ContainerStatuses[0].RestartCount = n } }
	sidecarRestarts := func(n int32) podOpt {
		return func(p *corev1.Pod) {
			always := corev1.ContainerRestartPolicyAlways
			p.Spec.InitContainers = []corev1.Container{{Name: "s", RestartPolicy: &always}, {Name: "i"}}
			p.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: "s", RestartCount: n}, {Name: "i", RestartCount: 100 - n}}
		}
	}
	initRestarts := func(n int32) podOpt {
		return func(p *corev1.Pod) {
			never := corev1.ContainerRestartPolicyNever
			p.Spec.InitContainers = []corev1.Container{{Name: "i", RestartPolicy: &never}}
			p.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: "i", RestartCount: n}}
		}
	}
	age := func(d time.Duration) podOpt {
		return func(p *corev1.Pod) { p.CreationTimestamp = metav1.NewTime(now.Add(-d)) }
	}
	for _, tt := range []struct {
		name    string
		pods    []*corev1.Pod
		related []*corev1.Pod
		n       int
		want    []string
	}{
		{"all of them", []*corev1.Pod{pod("b"), pod("a")}, nil, 2, []string{"b", "a"}},
		{"no node before pending", []*corev1.Pod{pod("a", phase(corev1.PodPending)), pod("b", unassigned)}, nil, 1, []string{"b"}},
		{"pending, unknown, running", []*corev1.Pod{pod("a"), pod("b", phase(corev1.PodUnknown)), pod("c", phase(corev1.PodPending))}, nil, 2, []string{"c", "b"}},
		{"not ready before low cost", []*corev1.Pod{pod("a", cost("-5")), pod("b", unready)}, nil, 1, []string{"b"}},
		{"low cost before sharing a node", []*corev1.Pod{pod("a"), pod("b", cost("-5"), node("m"))}, []*corev1.Pod{pod("x")}, 1, []string{"b"}},
		{"cost that is no number is 0", []*corev1.Pod{pod("a", cost("1")), pod("b", cost("+2")), pod("c", cost("3"))}, nil, 1, []string{"b"}},
		{"sharing a node before time ready", []*corev1.Pod{pod("a", node("m"), readyFor(time.Second)), pod("b")},
			[]*corev1.Pod{pod("x"), pod("y", node("m"), phase(corev1.PodFailed))}, 1, []string{"b"}},
		{"no time ready, then less", []*corev1.Pod{pod("a"), pod("b", readyFor(time.Second)), pod("c", sinceUnknown)}, nil, 2, []string{"c", "b"}},
		{"nearly the same time ready goes by uid", []*corev1.Pod{pod("b", readyFor(61*time.Minute)), pod("a", readyFor(62*time.Minute))}, nil, 1, []string{"a"}},
		{"restarts before age", []*corev1.Pod{pod("a", age(time.Second)), pod("b", restarts(3))}, nil, 1, []string{"b"}},
		{"restarts of sidecars", []*corev1.Pod{pod("a", sidecarRestarts(1)), pod("b", sidecarRestarts(2))}, nil, 1, []string{"b"}},
		{"younger", []*corev1.Pod{pod("a"), pod("b", age(time.Minute))}, nil, 1, []string{"b"}},
		{"a plain 0", []*corev1.Pod{pod("a", cost("1")), pod("b", cost("0")), pod("c", cost("-1"))}, nil, 2, []string{"c", "b"}},
		{"an octal is no number", []*corev1.Pod{pod("a", cost("1")), pod("b", cost("05")), pod("c", cost("x")), pod("d", cost("2"))}, nil, 2, []string{"b", "c"}},
		{"a larger number is none", []*corev1.Pod{pod("a", cost("-1")), pod("b", cost("-2147483649"))}, nil, 1, []string{"a"}},
		{"pending before running", []*corev1.Pod{pod("a"), pod("b", phase(corev1.PodPending)), pod("c"), pod("d", phase(corev1.PodUnknown))}, nil, 2, []string{"b", "d"}},
		{"no node, either way round", []*corev1.Pod{pod("a", unassigned), pod("b"), pod("c", unassigned), pod("d")}, nil, 2, []string{"a", "c"}},
		{"not ready, either way round", []*corev1.Pod{pod("a", unready), pod("b"), pod("c", unready), pod("d")}, nil, 2, []string{"a", "c"}},
		{"time ready unknown, either way round", []*corev1.Pod{pod("a", sinceUnknown), pod("b"), pod("c", sinceUnknown)}, nil, 2, []string{"a", "c"}},
		{"just made, and in the future", []*corev1.Pod{pod("b", age(0)), pod("a", age(-time.Hour)), pod("c", age(1))}, nil, 2, []string{"a", "b"}},
		{"restarts of init containers do not count", []*corev1.Pod{pod("a", initRestarts(1)), pod("b", initRestarts(2))}, nil, 1, []string{"a"}},
		{"equals by name", []*corev1.Pod{pod("c"), pod("a"), pod("b")}, nil, 2, []string{"a", "b"}},
	} {
		var got []string
		before := slices.Clone(tt.pods)
		for _, p := range replicas.Victims(tt.pods, tt.related, tt.n, now) {
			got = append(got, p.Name)
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
		if !slices.Equal(before, tt.pods) {
			t.Errorf("%s: the list was reordered", tt.name)
		}
	}
}

func TestStatus(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	set := replicaSet(3)
	set.Spec.MinReadySeconds = 3600
	labelled := func(p *corev1.Pod) { p.Labels = map[string]string{"app": "web", "more": "x"} }
	young := func(p *corev1.Pod) { p.Status.Conditions[0].LastTransitionTime = metav1.NewTime(now.Add(-time.Minute)) }
	unready := func(p *corev1.Pod) { p.Status.Conditions = nil }
	pods := []*corev1.Pod{rankPod("a", now, labelled), rankPod("b", now, young), rankPod("c", now, unready, labelled)}

	got := replicas.Status(set, pods, pods[:1], nil, now)
	if got.Replicas != 3 || got.FullyLabeledReplicas != 2 || got.ReadyReplicas != 2 || got.AvailableReplicas != 1 || *got.TerminatingReplicas != 1 || got.Conditions != nil {
		t.Errorf("status %+v", got)
	}
	failed := replicas.Status(set, pods[:1], nil, errors.New("quota"), now)
	want := appsv1.ReplicaSetCondition{Type: appsv1.ReplicaSetReplicaFailure, Status: corev1.ConditionTrue,
		LastTransitionTime: metav1.NewTime(now), Reason: "FailedCreate", Message: "quota"}
	if len(failed.Conditions) != 1 || failed.Conditions[0] != want {
		t.Errorf("conditions %+v", failed.Conditions)
	}
	set.Status = failed
	again := replicas.Status(set, pods[:1], nil, errors.New("another"), now.Add(time.Hour))
	if len(again.Conditions) != 1 || again.Conditions[0] != want {
		t.Errorf("the first failure stays while it lasts: %+v", again.Conditions)
	}
	if over := replicas.Status(set, pods, nil, nil, now); over.Conditions != nil {
		t.Errorf("the failure is over: %+v", over.Conditions)
	}
	set.Status = appsv1.ReplicaSetStatus{}
	if full := replicas.Status(set, pods, nil, errors.New("no"), now); full.Conditions[0].Reason != "FailedCreate" {
		t.Errorf("as many as asked for: %+v", full.Conditions)
	}
	if more := replicas.Status(set, append(pods, pods[0]), nil, errors.New("no"), now); more.Conditions[0].Reason != "FailedDelete" {
		t.Errorf("more than asked for: %+v", more.Conditions)
	}
	other := appsv1.ReplicaSetCondition{Type: "Other", Status: corev1.ConditionTrue}
	set.Status.Conditions = []appsv1.ReplicaSetCondition{other}
	if kept := replicas.Status(set, pods, nil, nil, now); len(kept.Conditions) != 1 || kept.Conditions[0] != other {
		t.Errorf("others' conditions: %+v", kept.Conditions)
	}
	set.Spec.Replicas = nil // is 1
	if more := replicas.Status(set, pods[:2], nil, errors.New("no"), now); more.Conditions[1].Reason != "FailedDelete" {
		t.Errorf("two of one: %+v", more.Conditions)
	}
}

// TestAgain: when a set is looked at again although nothing changes.
func TestAgain(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	young := rankPod("a", now, func(p *corev1.Pod) {
		p.Status.Conditions[0].LastTransitionTime = metav1.NewTime(now.Add(-10 * time.Second))
	})
	old := rankPod("b", now)
	for _, tt := range []struct {
		name             string
		least            int32
		ready, available int32
		active           []*corev1.Pod
		wait, want       time.Duration
	}{
		{"nothing to wait for", 0, 1, 1, []*corev1.Pod{old}, 0, 0},
		{"writes to come", 0, 1, 1, []*corev1.Pod{old}, time.Minute, time.Minute},
		{"no time to be ready", 0, 2, 1, []*corev1.Pod{old, young}, time.Minute, time.Minute},
		{"all are available", 30, 2, 2, []*corev1.Pod{old, young}, 0, 0},
		{"one is to be", 30, 2, 1, []*corev1.Pod{old, young}, 0, 20 * time.Second},
		{"before writes come", 30, 2, 1, []*corev1.Pod{old, young}, time.Minute, 20 * time.Second},
		{"after writes come", 30, 2, 1, []*corev1.Pod{old, young}, time.Second, time.Second},
		{"nobody knows which", 30, 2, 1, []*corev1.Pod{old}, 0, 30 * time.Second},
		{"one second", 1, 2, 1, []*corev1.Pod{old}, 0, time.Second},
	} {
		set := replicaSet(3)
		set.Spec.MinReadySeconds = tt.least
		set.Status.ReadyReplicas, set.Status.AvailableReplicas = tt.ready, tt.available
		if got := replicas.Again(set, tt.active, tt.wait, now); got != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}
