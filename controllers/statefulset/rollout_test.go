package statefulset_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/keelson-dev/keelson/controllers/controllerstest"
)

// TestRollingUpdate: pods are replaced one by one, from the highest ordinal down, each when the last one is ready.
func TestRollingUpdate(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.node()
		create(b, web(3))
		b.after(time.Minute)
		b.change(image("web:2"))
		b.wantPods("web-0=web:1+ web-1=web:1+ web-2=web:1+-")
		b.wantStatus("replicas 3 ready 3 available 3 current 2 web:1 updated 0 web:2 observed 2")
		b.after(1500 * time.Millisecond)
		b.wantPods("web-0=web:1+ web-1=web:1+ web-2=web:2")
		b.after(time.Second)
		b.wantPods("web-0=web:1+ web-1=web:1+- web-2=web:2+")
		b.wantStatus("replicas 3 ready 3 available 3 current 1 web:1 updated 1 web:2 observed 2")
		b.after(time.Minute)
		b.wantPods("web-0=web:2+ web-1=web:2+ web-2=web:2+")
		b.wantStatus("replicas 3 ready 3 available 3 current 3 web:2 updated 3 web:2 observed 2")
		b.wantHistory("1=web:1 2=web:2")

		b.change(image("web:1")) // the revision that it had already
		b.after(time.Minute)
		b.wantPods("web-0=web:1+ web-1=web:1+ web-2=web:1+")
		b.wantHistory("2=web:2 3=web:1")
		b.change(func(set *appsv1.StatefulSet) { set.Spec.RevisionHistoryLimit = new(int32(0)) })
		b.after(time.Minute)
		b.wantHistory("3=web:1")
	})
}

// TestPartition: pods below the partition keep their revision, even if they are created again.
func TestPartition(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.node()
		create(b, web(3, rolling(0, "1"), func(set *appsv1.StatefulSet) { set.Spec.Ordinals = &appsv1.StatefulSetOrdinals{Start: 3} }))
		b.after(time.Minute)
		b.change(func(set *appsv1.StatefulSet) {
			image("web:2")(set)
			rolling(2, "1")(set)
		})
		b.after(time.Minute)
		b.wantPods("web-3=web:1+ web-4=web:1+ web-5=web:2+")
		b.wantStatus("replicas 3 ready 3 available 3 current 2 web:1 updated 1 web:2 observed 2")
		b.remove(at(controllerstest.Pods(), "web-4"), metav1.DeleteOptions{})
		b.remove(at(controllerstest.Pods(), "web-5"), metav1.DeleteOptions{})
		b.after(time.Minute)
		b.wantPods("web-3=web:1+ web-4=web:1+ web-5=web:2+")
		b.change(rolling(0, "1"))
		b.after(time.Minute)
		b.wantPods("web-3=web:2+ web-4=web:2+ web-5=web:2+")
		b.wantStatus("replicas 3 ready 3 available 3 current 3 web:2 updated 3 web:2 observed 3")
	})
}

// TestWithoutParameters: a rolling update without parameters creates as many pods as there are left of the current revision
// at that one.
func TestWithoutParameters(t *testing.T) {
	plain := func(set *appsv1.StatefulSet) {
		set.Spec.UpdateStrategy = appsv1.StatefulSetUpdateStrategy{Type: appsv1.RollingUpdateStatefulSetStrategyType}
	}
	inBubble(t, func(b *bench) {
		b.node()
		create(b, web(3, plain))
		b.after(time.Minute)
		b.change(image("web:2"))
		b.remove(at(controllerstest.Pods(), "web-0"), metav1.DeleteOptions{})
		b.after(2500 * time.Millisecond)
		b.wantPods("web-0=web:1+ web-1=web:1+ web-2=web:2")
		b.after(time.Minute)
		b.wantPods("web-0=web:2+ web-1=web:2+ web-2=web:2+")
	})
}

// TestMaxUnavailable: several pods are replaced at once.
func TestMaxUnavailable(t *testing.T) {
	for name, tt := range map[string]struct {
		policy      func(*appsv1.StatefulSet)
		unavailable string
		first, then string
	}{
		"ordered": {func(*appsv1.StatefulSet) {}, "2", "web-0=web:1+ web-1=web:1+ web-2=web:1+- web-3=web:1+-", "web-0=web:1+ web-1=web:1+ web-2=web:2"},
		"a share": {func(*appsv1.StatefulSet) {}, "60%", "web-0=web:1+ web-1=web:1+ web-2=web:1+- web-3=web:1+-", "web-0=web:1+ web-1=web:1+ web-2=web:2"},
		"nothing": {func(*appsv1.StatefulSet) {}, "10%", "web-0=web:1+ web-1=web:1+ web-2=web:1+ web-3=web:1+-", "web-0=web:1+ web-1=web:1+ web-2=web:1+ web-3=web:2"},
		"parallel": {parallel, "3", "web-0=web:1+ web-1=web:1+- web-2=web:1+- web-3=web:1+-",
			"web-0=web:1+ web-1=web:2 web-2=web:2 web-3=web:2"},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(b *bench) {
				b.node()
				create(b, web(4, tt.policy, rolling(0, tt.unavailable)))
				b.after(time.Minute)
				b.change(image("web:2"))
				b.wantPods(tt.first)
				b.after(1500 * time.Millisecond)
				b.wantPods(tt.then)
				b.after(time.Minute)
				b.wantPods("web-0=web:2+ web-1=web:2+ web-2=web:2+ web-3=web:2+")
				b.wantStatus("replicas 4 ready 4 available 4 current 4 web:2 updated 4 web:2 observed 2")
			})
		})
	}
}

// TestBrokenUpdate: a revision that never gets ready stops an ordered update, and a correction does not reach its pod; with
// Parallel, the pods that are not ready are replaced first.
func TestBrokenUpdate(t *testing.T) {
	broken := func(pod *corev1.Pod) bool { return pod.Spec.Containers[0].Image == "web:bad" }
	for name, tt := range map[string]struct {
		policy      func(*appsv1.StatefulSet)
		stuck, then string
	}{
		"ordered":  {func(*appsv1.StatefulSet) {}, "web-0=web:1+ web-1=web:1+ web-2=web:bad", "web-0=web:1+ web-1=web:1+ web-2=web:bad"},
		"parallel": {parallel, "web-0=web:1+ web-1=web:1+ web-2=web:bad", "web-0=web:3+ web-1=web:3+ web-2=web:3+"},
	} {
		t.Run(name, func(t *testing.T) {
			run(t, &bench{broken: broken}, func(b *bench) {
				b.node()
				create(b, web(3, tt.policy))
				b.after(time.Minute)
				b.change(image("web:bad"))
				b.after(time.Minute)
				b.wantPods(tt.stuck)
				b.change(image("web:3"))
				b.after(time.Minute)
				b.wantPods(tt.then)
			})
		})
	}
}

// TestOnDelete: pods keep their revision until somebody else deletes them.
func TestOnDelete(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.node()
		create(b, web(2, onDelete))
		b.after(time.Minute)
		b.change(image("web:2"))
		b.after(time.Minute)
		b.wantPods("web-0=web:1+ web-1=web:1+")
		b.wantStatus("replicas 2 ready 2 available 2 current 2 web:1 updated 0 web:2 observed 2")
		b.remove(at(controllerstest.Pods(), "web-0"), metav1.DeleteOptions{})
		b.after(time.Minute)
		b.wantPods("web-0=web:2+ web-1=web:1+")
		b.wantStatus("replicas 2 ready 2 available 2 current 1 web:1 updated 1 web:2 observed 2")
	})
}

// TestHistory: as many revisions are kept as the limit says, and those of pods in any case.
func TestHistory(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.node()
		create(b, web(2, onDelete, func(set *appsv1.StatefulSet) { set.Spec.RevisionHistoryLimit = new(int32(1)) }))
		b.after(time.Minute)
		for i := range 4 {
			b.change(image(fmt.Sprintf("web:%d", i+2)))
			b.after(time.Minute)
		}
		b.change(func(set *appsv1.StatefulSet) { set.Annotations = map[string]string{"k": "v"} })
		b.wantHistory("1=web:1 4=web:4 5=web:5") // the first one is that of the pods
		b.change(func(set *appsv1.StatefulSet) { set.Spec.RevisionHistoryLimit = new(int32(-1)) })
		for i := range 4 {
			b.change(image(fmt.Sprintf("web:%d", i+6)))
			b.after(time.Minute)
		}
		b.wantHistory("1=web:1 4=web:4 5=web:5 6=web:6 7=web:7 8=web:8 9=web:9")
		if r := b.history()[6]; r.Annotations["k"] != "v" || r.Labels["app"] != "web" || r.Labels["controller.kubernetes.io/hash"] == "" {
			t.Errorf("revision %+v", r.ObjectMeta)
		}
	})
}

// TestHistoryOfPods: the revisions of pods are kept, besides the current and the last one.
func TestHistoryOfPods(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.node()
		create(b, web(2, onDelete, func(set *appsv1.StatefulSet) { set.Spec.RevisionHistoryLimit = new(int32(0)) }))
		b.after(time.Minute)
		b.change(image("web:2"))
		b.remove(at(controllerstest.Pods(), "web-1"), metav1.DeleteOptions{})
		b.after(time.Minute)
		for i := range 2 {
			b.change(image(fmt.Sprintf("web:%d", i+3)))
			b.after(time.Minute)
		}
		b.wantPods("web-0=web:1+ web-1=web:2+")
		b.change(func(set *appsv1.StatefulSet) { set.Annotations = map[string]string{"k": "v"} })
		b.after(time.Minute)
		b.wantHistory("1=web:1 2=web:2 4=web:4")
	})
}

// TestCollision: a revision whose name is taken gets another, and the status counts that.
func TestCollision(t *testing.T) {
	inBubble(t, func(b *bench) {
		create(b, web(0))
		name := b.set().Status.UpdateRevision
		b.remove(at(sets(), "web"), metav1.DeleteOptions{})
		b.remove(at(revisions(), name), metav1.DeleteOptions{})
		create(b, &appsv1.ControllerRevision{
			ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "ns"}, Data: runtime.RawExtension{Raw: []byte("{}")}, Revision: 1,
		})
		create(b, web(0))
		b.after(time.Minute)
		if got := b.set().Status; got.CollisionCount == nil || *got.CollisionCount != 1 || got.UpdateRevision == name || !strings.HasPrefix(got.UpdateRevision, "web-") {
			t.Errorf("status %+v", got)
		}
		b.change(image("web:2"))
		b.after(time.Minute)
		if got := b.set().Status; got.CollisionCount == nil || *got.CollisionCount != 1 || got.ObservedGeneration != 2 {
			t.Errorf("after a further revision: %+v", got)
		}
	})
}

// TestAdoptedHistory: a set adopts the revisions that it selects, and takes up where they end.
func TestAdoptedHistory(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.node()
		create(b, web(1))
		b.after(time.Minute)
		b.change(image("web:2"))
		b.after(time.Minute)
		for _, r := range b.history() {
			update(b, at(revisions(), r.Name), func(r *appsv1.ControllerRevision) { r.OwnerReferences = nil })
		}
		b.after(time.Minute)
		b.change(func(set *appsv1.StatefulSet) { set.Labels = map[string]string{"a": "b"} })
		b.after(time.Minute)
		for _, r := range b.history() {
			if !metav1.IsControlledBy(&r, b.set()) {
				t.Errorf("revision %d has owners %v", r.Revision, r.OwnerReferences)
			}
		}
		b.wantHistory("1=web:1 2=web:2")
	})
}
