package scheduler_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/scheduler"
	"github.com/keelson-dev/keelson/scheduler/plugins"
	"github.com/keelson-dev/keelson/scheduler/schedulertest"
	"github.com/keelson-dev/keelson/scheduler/signature"
)

// disk is a third-party predicate without a signature.
type disk struct{}

func (disk) Name() string { return "Disk" }

func (disk) Check(pod *corev1.Pod, node *scheduler.NodeInfo) *scheduler.Refusal {
	if want := pod.Spec.NodeSelector["disk"]; want != "" && node.Node.Labels["disk"] != want || len(node.Pods)%3 == 2 {
		return scheduler.Refuse("node(s) had another disk")
	}
	return nil
}

// signed is disk with a signature.
type signed struct {
	disk
	sign func(b []byte, pod *corev1.Pod) ([]byte, bool)
}

func (s signed) Signature(b []byte, pod *corev1.Pod) ([]byte, bool) { return s.sign(b, pod) }

func fine(b []byte, pod *corev1.Pod) ([]byte, bool) {
	return signature.String(b, pod.Spec.NodeSelector["disk"]), true
}

// Missing, overlong or misplaced signatures only cost speed, beside plugins whose signatures are right.
func TestPoorSignaturesDecideRightly(t *testing.T) {
	for name, plugin := range map[string]scheduler.Plugin{
		"none":      disk{},
		"right":     signed{sign: fine},
		"too long":  signed{sign: func(b []byte, pod *corev1.Pod) ([]byte, bool) { return signature.String(b, pod.Name), true }},
		"refused":   signed{sign: func(b []byte, _ *corev1.Pod) ([]byte, bool) { return b, false }},
		"at times":  signed{sign: func(b []byte, pod *corev1.Pod) ([]byte, bool) { b, _ = fine(b, pod); return b, len(pod.Name)%2 == 0 }},
		"by itself": signed{sign: func(_ []byte, pod *corev1.Pod) ([]byte, bool) { return fine(nil, pod) }},
		"overwrites": signed{sign: func(b []byte, pod *corev1.Pod) ([]byte, bool) {
			clear(b[:cap(b)])
			return fine(b[:0], pod)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			// In the middle, so that other signatures come before and after it.
			profile := defaults()
			profile.Plugins = append(append(profile.Plugins[:4:4], scheduler.Enabled{Plugin: plugin}), profile.Plugins[4:]...)
			r := rand.New(rand.NewPCG(7, 7))
			nodes, bound, unbound := schedulertest.RandomCluster(r, 40, 100)
			var state scheduler.State
			for _, n := range nodes {
				state.SetNode(n)
			}
			for _, p := range bound {
				state.SetPod(p)
			}
			planner := scheduler.NewPlanner(&profile)
			placed := 0
			for range 2 {
				for _, p := range unbound {
					want, got := profile.Schedule(p, state.Snapshot()), planner.Schedule(p, state.Snapshot())
					if want.String() != got.String() {
						t.Fatalf("decides\n%s\nnot\n%s", got, want)
					}
					if got.Node != "" {
						placed++
						state.SetPod(on(p, got.Node))
					}
				}
			}
			if placed < 10 {
				t.Errorf("placed %d pods", placed)
			}
		})
	}
}

// A plugin with two roles distinguishes pods that it treats differently in one of them.
func TestRolesShareASignature(t *testing.T) {
	profile := scheduler.Profile{Plugins: []scheduler.Enabled{{Plugin: plugins.NodeAffinity{}, Weight: 1}}}
	planner := scheduler.NewPlanner(&profile)
	a, b := node("a", "1", "1Gi"), node("b", "1", "1Gi")
	cluster := scheduler.NewSnapshot([]*corev1.Node{a, b}, nil)
	for i := range 4 {
		want := []string{"a", "b"}[i%2]
		p := pod("p", "", "")
		p.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
			PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{{Weight: 1, Preference: corev1.NodeSelectorTerm{
				MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelHostname, Operator: "In", Values: []string{want}}},
			}}},
		}}
		if got, err := planner.Place(p, cluster); got != want {
			t.Errorf("placed on %q, not %q: %v", got, want, err)
		}
	}
}

// BenchmarkThirdParty places pods with the default profile and one more predicate: a built-in one again under
// another name, or a third-party one, with a signature and without.
func BenchmarkThirdParty(b *testing.B) {
	for _, one := range []struct {
		name   string
		plugin scheduler.Plugin
	}{
		{"built-in", renamed{plugins.NodeUnschedulable{}}},
		{"signature", signed{sign: fine}},
		{"none", disk{}},
	} {
		b.Run(one.name, func(b *testing.B) {
			profile := defaults()
			profile.Plugins = append(profile.Plugins, scheduler.Enabled{Plugin: one.plugin})
			for b.Loop() {
				place(b, 1000, scheduler.NewPlanner(&profile).Place)
			}
		})
	}
}

type renamed struct{ plugins.NodeUnschedulable }

func (renamed) Name() string { return "Renamed" }

// With replaces by name and appends, Without removes, and both leave their argument unchanged.
func TestWithAndWithout(t *testing.T) {
	names := func(all []scheduler.Enabled) (names []string) {
		for _, e := range all {
			names = append(names, fmt.Sprintf("%s×%d", e.Plugin.Name(), e.Weight))
		}
		return names
	}
	first := []scheduler.Enabled{{Plugin: disk{}}, {Plugin: plugins.NodeName{}}, {Plugin: plugins.NodeAffinity{}, Weight: 2}}
	same(t, []string{"Disk×0", "NodeName×0", "NodeAffinity×5", "ImageLocality×1"}, names(scheduler.With(first,
		scheduler.Enabled{Plugin: plugins.NodeAffinity{}, Weight: 5}, scheduler.Enabled{Plugin: plugins.ImageLocality{}, Weight: 1})))
	same(t, []string{"Disk×3", "NodeName×0", "NodeAffinity×2"}, names(scheduler.With(first, scheduler.Enabled{Plugin: disk{}, Weight: 3})))
	same(t, []string{"NodeName×0"}, names(scheduler.Without(first, "Disk", "NodeAffinity", "Unknown")))
	same(t, []string{"Disk×0", "NodeName×0", "NodeAffinity×2"}, names(first))
}
