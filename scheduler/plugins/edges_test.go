package plugins_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/scheduler"
	"github.com/keelson-dev/keelson/scheduler/plugins"
)

// The wishes of pods that are gone count no more, and those of the others as before.
func TestWishesOfPodsThatAreGone(t *testing.T) {
	profile := scheduler.Profile{Plugins: []scheduler.Enabled{{Plugin: plugins.InterPodAffinity{}, Weight: 1}}}
	wishing := func(name string, weight int32, of string) *corev1.Pod {
		return guest(name, "app="+name, living("a"), ratherNear(weight, term(corev1.LabelHostname, app(of))))
	}
	first, second, third := wishing("first", 1, "other"), wishing("second", 10, "web"), wishing("third", 1, "db")
	neighbour := guest("near", "app=near", living("b"))
	web := guest("web", "app=web", ratherNear(15, term(corev1.LabelHostname, app("near"))))
	for name, gone := range map[string][]*corev1.Pod{
		"none": nil, "the first": {first}, "the last": {third}, "both": {first, third}, "both, the last first": {third, first},
	} {
		planner := scheduler.NewPlanner(&profile)
		state := scheduler.NewSnapshot(street()[:2], []*corev1.Pod{first, second, third, neighbour}).State()
		if d := planner.Schedule(web, state.Snapshot()); d.Node != "b" { // 15 there, 10 on the other node
			t.Errorf("before: %v", d)
		}
		for _, p := range gone {
			state.RemovePod(p)
		}
		if d := planner.Schedule(web, state.Snapshot()); d.Node != "b" {
			t.Errorf("%s gone: %v", name, d)
		}
		state.RemovePod(neighbour)
		if d := planner.Schedule(web, state.Snapshot()); d.Node != "a" {
			t.Errorf("%s gone, and whom it would rather be near: %v", name, d)
		}
	}
}

// A pod with wishes of both kinds has wishes.
func TestOwnWishesOfBothKinds(t *testing.T) {
	profile := scheduler.Profile{Plugins: []scheduler.Enabled{{Plugin: plugins.InterPodAffinity{IgnorePreferredTermsOfExistingPods: true}, Weight: 1}}}
	pods := []*corev1.Pod{guest("x", "app=near", living("b")), guest("y", "app=far", living("a"))}
	p := guest("p", "", ratherNear(3, term(corev1.LabelHostname, app("near"))), func(s *corev1.PodSpec) {
		s.Affinity.PodAntiAffinity = &corev1.PodAntiAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{
			{Weight: 3, PodAffinityTerm: term(corev1.LabelHostname, app("far"))},
		}}
	})
	if d := profile.Schedule(p, scheduler.NewSnapshot(street(), pods)); d.Node != "b" || d.Verdicts[0].Scores[0].Skipped {
		t.Errorf("decided %v", d)
	}
}

// A limit that goes helps nobody, and one that comes does.
func TestLimitsThatCome(t *testing.T) {
	node := func(allocatable *storagev1.VolumeNodeResources) *storagev1.CSINode {
		return &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: "n"}, Spec: storagev1.CSINodeSpec{Drivers: []storagev1.CSINodeDriver{{Name: "d", Allocatable: allocatable}}}}
	}
	count := func(n int32) *storagev1.VolumeNodeResources { return &storagev1.VolumeNodeResources{Count: &n} }
	for name, tt := range map[string]struct {
		old, is *storagev1.VolumeNodeResources
		want    bool
	}{
		"the same":          {count(1), count(1), false},
		"more":              {count(1), count(2), true},
		"less":              {count(2), count(1), false},
		"comes":             {nil, count(1), true},
		"goes":              {count(1), nil, false},
		"none":              {nil, &storagev1.VolumeNodeResources{}, false},
		"without a number":  {count(1), &storagev1.VolumeNodeResources{}, false},
		"comes by a number": {&storagev1.VolumeNodeResources{}, count(1), true},
	} {
		e := scheduler.Event{Kind: scheduler.ObjectUpdated, OldObject: node(tt.old), Object: node(tt.is)}
		if got := (plugins.NodeVolumeLimits{}).MayHelp(using("c"), e); got != tt.want {
			t.Errorf("%s: may help is %t", name, got)
		}
	}
}

// A scheduler without volumes names the first claim, whatever other volumes the pod has.
func TestFirstClaim(t *testing.T) {
	mixed := inline(corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}})
	mixed.Spec.Volumes = append(mixed.Spec.Volumes, ephemeral().Spec.Volumes...)
	mixed.Spec.Volumes = append(mixed.Spec.Volumes, using("x", "y").Spec.Volumes...)
	check(t, plugins.VolumeBinding{}, map[string]expect{
		"a directory first": {mixed, scheduler.NewNodeInfo(labeled()), never(`pod requires persistentvolumeclaim "x", which this scheduler does not support`)},
	})
}
