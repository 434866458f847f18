package daemonset_test

import (
	"fmt"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/keelson-dev/keelson/client/faults"
	"github.com/keelson-dev/keelson/controllers/controllerstest"
	"github.com/keelson-dev/keelson/controllers/internal/pods"
	"github.com/keelson-dev/keelson/controllers/internal/revisions"
)

// dataOf is what a revision of the set says.
func dataOf(b *bench, set *appsv1.DaemonSet) runtime.RawExtension {
	b.Helper()
	data, err := revisions.Data(&set.Spec.Template)
	if err != nil {
		b.Fatal(err)
	}
	return runtime.RawExtension{Raw: data}
}

// stored returns a set as the server stores it: with defaults.
func stored(b *bench) *appsv1.DaemonSet {
	b.Helper()
	api := controllerstest.Start(b, controllerstest.Options{})
	return controllerstest.Add(b, api, logs())
}

func (b *bench) wantNumbers(want ...int64) {
	b.Helper()
	var got []int64
	for _, r := range b.history() {
		got = append(got, r.Revision)
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		b.Errorf("revisions %v, want %v", got, want)
	}
}

// TestRevision: what the revision of a template is like.
func TestRevision(t *testing.T) {
	inBubble(t, func(b *bench) {
		set := create(b, logs(func(set *appsv1.DaemonSet) {
			set.Annotations = map[string]string{"kubernetes.io/change-cause": "first"}
		}))
		b.wantNumbers(1)
		r := b.history()[0]
		hash := pods.TemplateHash(&set.Spec.Template, nil)
		if r.Name != "log-"+hash || r.Labels["controller-revision-hash"] != hash || r.Labels["app"] != "log" || len(r.Labels) != 2 ||
			r.Annotations["kubernetes.io/change-cause"] != "first" || r.Annotations["deprecated.daemonset.template.generation"] != "1" ||
			!metav1.IsControlledBy(&r, set) || string(r.Data.Raw) != string(dataOf(b, set).Raw) {
			b.Errorf("revision %+v", r)
		}
	})
}

// TestRollback: a template that is used again has its old revision, with a new number.
func TestRollback(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.kubelets(0, 0)
		b.nodes("a")
		create(b, logs())
		first := b.history()[0]
		b.change(image("two"))
		b.after(time.Minute)
		b.wantNumbers(1, 2)
		b.change(image("one"))
		b.after(time.Minute)
		b.wantNumbers(2, 3)
		if got := b.history()[1]; got.UID != first.UID {
			b.Errorf("%s has number 3, want %s", got.Name, first.Name)
		}
		b.wantPods("a one")
	})
}

// TestHistoryLimit: the oldest revisions that no pod was made from are deleted.
func TestHistoryLimit(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.kubelets(0, 0)
		b.nodes("a")
		create(b, logs(func(set *appsv1.DaemonSet) {
			set.Spec.RevisionHistoryLimit = new(int32(2))
			set.Spec.UpdateStrategy.Type = appsv1.OnDeleteDaemonSetStrategyType
		}))
		for _, to := range []string{"two", "three", "four", "five"} {
			b.change(image(to))
			b.after(time.Minute)
		}
		b.wantNumbers(1, 4, 5) // the pod is still of the first
		b.wantPods("a one")
		b.remove(podAt(b.list()[0].Name))
		b.after(time.Minute)
		b.wantPods("a five")
		b.change(image("six"))
		b.after(time.Minute)
		b.wantNumbers(4, 5, 6)
		b.change(func(set *appsv1.DaemonSet) { set.Spec.RevisionHistoryLimit = new(int32(0)) })
		b.after(time.Minute)
		b.wantNumbers(5, 6)
	})
}

// TestCollision: a name that another revision has is evaded, and the set counts it.
func TestCollision(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.nodes("a")
		set := stored(b)
		taken := &appsv1.ControllerRevision{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "log-" + pods.TemplateHash(&set.Spec.Template, nil)},
			Revision:   7, Data: runtime.RawExtension{Raw: []byte(`{"other":1}`)},
		}
		create(b, taken)
		create(b, logs())
		b.after(time.Minute)
		if n := b.set().Status.CollisionCount; n == nil || *n != 1 {
			b.Errorf("collisions %v", n)
		}
		hash := pods.TemplateHash(&set.Spec.Template, new(int32(1)))
		if got := b.history(); len(got) != 2 || got[0].Name != "log-"+hash || got[0].Revision != 1 {
			b.Errorf("revisions %+v", got)
		}
		if pod := b.list()[0]; pod.Labels["controller-revision-hash"] != hash {
			b.Errorf("labels %v", pod.Labels)
		}
		b.wantStatus("desired 1 current 1 misscheduled 0 ready 0 updated 1 available 0 unavailable 1 observed 1")
	})
}

// TestCollisionSeenLate: as long as the cache does not show the count, it is not raised again.
func TestCollisionSeenLate(t *testing.T) {
	inBubble(t, func(b *bench) {
		set := stored(b)
		create(b, &appsv1.ControllerRevision{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "log-" + pods.TemplateHash(&set.Spec.Template, nil)},
			Revision:   7, Data: runtime.RawExtension{Raw: []byte(`{"other":1}`)},
		})
		held := false
		b.before = func(r faults.Request) error {
			if r.Verb == faults.Update && !held {
				held = true
				b.sets.Hold()
			}
			return nil
		}
		create(b, logs())
		b.after(time.Minute)
		if n := b.set().Status.CollisionCount; n == nil || *n != 1 {
			b.Errorf("collisions %v", n)
		}
		b.sets.Resume()
		b.after(time.Hour)
		b.wantNumbers(1, 7)
	})
}

// TestRevisionNotSeen: a revision that the cache does not show is not made twice.
func TestRevisionNotSeen(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.revisions.Hold()
		create(b, logs())
		b.change(func(set *appsv1.DaemonSet) { set.Labels = app("log") })
		b.after(time.Minute)
		b.wantNumbers(1)
		if n := b.set().Status.CollisionCount; n != nil {
			b.Errorf("collisions %d", *n)
		}
		b.revisions.Resume()
	})
}

// TestForeignRevisions: revisions are adopted, labelled, released, and merged if they say the same.
func TestForeignRevisions(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.nodes("a")
		data := dataOf(b, stored(b))
		foreign := func(name string, number int64, labels map[string]string) {
			b.Helper()
			create(b, &appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, Labels: labels}, Revision: number, Data: data})
		}
		foreign("first", 3, map[string]string{"app": "log", "controller-revision-hash": "hash-of-first"})
		foreign("second", 5, app("log"))
		foreign("another", 9, nil)
		old := pod("a-1")
		old.Labels = map[string]string{"app": "log", "controller-revision-hash": "hash-of-first"}
		create(b, old)
		set := create(b, logs())
		b.after(time.Minute)
		b.wantNumbers(5, 9)
		r := b.history()[0]
		if r.Name != "second" || r.Labels["controller-revision-hash"] != "second" || !metav1.IsControlledBy(&r, set) {
			b.Errorf("revision %+v", r)
		}
		if pod := b.list()[0]; pod.Name != "a-1" || pod.Labels["controller-revision-hash"] != "second" {
			b.Errorf("pod %s, labels %v", pod.Name, pod.Labels)
		}
		b.wantStatus("desired 1 current 1 misscheduled 0 ready 1 updated 1 available 1 unavailable 0 observed 1")

		update(b, revisionAt("second"), func(r *appsv1.ControllerRevision) { r.Labels = map[string]string{"controller-revision-hash": "second"} })
		b.after(time.Minute)
		for _, r := range b.history() {
			if owned := metav1.IsControlledBy(&r, set); owned != (r.Name != "second" && r.Name != "another") {
				b.Errorf("%s is controlled: %t", r.Name, owned)
			}
		}
	})
}

// TestUpdateBeforePods: a pod of an old template is replaced before it is bound, too.
func TestUpdateBeforePods(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.nodes("a")
		create(b, logs())
		b.change(image("two")) // before the pod is bound
		b.after(time.Minute)
		b.wantPods("a two")
		if got := len(b.list()); got != 1 {
			b.Errorf("%d pods", got)
		}
		b.kubelets(0, 0)
		b.after(time.Minute)
		b.wantStatus("desired 1 current 1 misscheduled 0 ready 1 updated 1 available 1 unavailable 0 observed 2")
		if pod := b.list()[0]; pod.Spec.NodeName != "a" || pod.Status.Phase != corev1.PodRunning {
			b.Errorf("pod %+v", pod)
		}
	})
}
