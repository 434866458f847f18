package scheduler_test

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/scheduler"
)

// counting is a predicate that takes every pod of one kind for like another, and counts how often it is asked.
type counting struct{ asked *int }

func (counting) Name() string { return "Counting" }

func (c counting) Check(*corev1.Pod, *scheduler.NodeInfo) *scheduler.Refusal {
	*c.asked++
	return nil
}

func (counting) Signature(b []byte, pod *corev1.Pod) ([]byte, bool) {
	kind := pod.Labels["kind"]
	return append(b, kind...), kind != "unlike any"
}

// A planner asks about a node once for all pods that are alike, until the node changes.
func TestPlannerAsksOnce(t *testing.T) {
	asked := 0
	profile := scheduler.Profile{Predicates: []scheduler.Predicate{counting{&asked}}}
	planner := scheduler.NewPlanner(&profile)
	nodes := []*corev1.Node{node("a", "4", "8Gi"), node("b", "4", "8Gi"), node("c", "4", "8Gi")}
	snapshot := scheduler.NewSnapshot(nodes, nil)
	place := func(kind string, s *scheduler.Snapshot, want int) {
		t.Helper()
		asked = 0
		p := pod(fmt.Sprint("pod-", kind), "1", "1Gi")
		p.Labels = map[string]string{"kind": kind}
		if _, err := planner.Place(p, s); err != nil {
			t.Fatal(err)
		}
		if asked != want {
			t.Errorf("asked %d times about a pod of kind %q, not %d", asked, kind, want)
		}
	}
	place("x", snapshot, 3)
	place("x", snapshot, 0)
	place("y", snapshot, 3)
	place("x", snapshot, 0)
	place("y", snapshot, 0)
	place("", snapshot, 3)
	place("unlike any", snapshot, 3)
	place("unlike any", snapshot, 3)
	place("x", snapshot, 0)
}

// A predicate that does not say what helps is helped by everything that happens, one that does by what it says.
func TestWhatMayHelp(t *testing.T) {
	never := scheduler.PredicateFunc("Never", func(*corev1.Pod, *scheduler.NodeInfo) *scheduler.Refusal { return scheduler.Refuse("never") })
	hinted := hinting{scheduler.PredicateFunc("Hinted", func(*corev1.Pod, *scheduler.NodeInfo) *scheduler.Refusal { return nil }), false}
	helped := hinting{scheduler.PredicateFunc("Helped", func(*corev1.Pod, *scheduler.NodeInfo) *scheduler.Refusal { return nil }), true}
	profile := scheduler.Profile{Predicates: []scheduler.Predicate{never, hinted, helped}}
	added, deleted := scheduler.Event{Kind: scheduler.NodeAdded}, scheduler.Event{Kind: scheduler.NodeDeleted}
	for _, tt := range []struct {
		refusedBy []string
		event     scheduler.Event
		want      bool
	}{
		{[]string{"Never"}, added, true},
		{[]string{"Hinted"}, added, false},
		{[]string{"Helped"}, added, true},
		{[]string{"Helped"}, deleted, false},
		{[]string{"Hinted", "Never"}, deleted, true},
		{[]string{"Hinted", "Helped"}, added, true},
		{[]string{"Hinted", "Unknown"}, deleted, true},
		{nil, added, false},
	} {
		if got := profile.MayHelp(pod("p", "", ""), tt.refusedBy, tt.event); got != tt.want {
			t.Errorf("refused by %v, event %d: %v", tt.refusedBy, tt.event.Kind, got)
		}
	}
}

// hinting is a predicate that new nodes help, or not.
type hinting struct {
	scheduler.Predicate
	helps bool
}

func (hinting) Events() scheduler.EventKind                 { return scheduler.NodeAdded }
func (h hinting) MayHelp(*corev1.Pod, scheduler.Event) bool { return h.helps }
