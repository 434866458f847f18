package replicaset_test

import (
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/controllers/controllerstest"
	"github.com/keelson-dev/keelson/controllers/internal/trial"
	"github.com/keelson-dev/keelson/controllers/replicaset"
)

// watched is a controller that does not run: its queue records what it would reconcile.
type watched struct {
	*bench
	queue trial.Queue
}

func (w *watched) want(what, want string) {
	w.Helper()
	synctest.Wait()
	if got := w.queue.Take(); got != want {
		w.Errorf("%s: %q, want %q", what, got, want)
	}
}

// pod creates a pod that a finalizer keeps when it is deleted.
func (w *watched) pod(name string, labels map[string]string, owner *appsv1.ReplicaSet) {
	w.Helper()
	p := podWith(name, labels, owner)
	p.Finalizers = []string{"x/y"}
	create(w.bench, p)
}

// change changes a pod and its status.
func (w *watched) change(name string, change func(*corev1.Pod)) {
	w.Helper()
	update(w.bench, podAt(name), change)
	status := podAt(name)
	status.Subresource = "status"
	p, err := client.As[*corev1.Pod](w.api.Others.Get(w.Context(), podAt(name)))
	if apierrors.IsNotFound(err) {
		return // it went with its last finalizer
	}
	if err != nil {
		w.Fatal(err)
	}
	change(p)
	if _, err := w.api.Others.Update(w.Context(), status, p, metav1.UpdateOptions{}); err != nil {
		w.Fatal(err)
	}
}

// TestWatch: which sets are queued by a change.
func TestWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &watched{bench: &bench{stored: func(s *appsv1.ReplicaSet) {
			switch s.Name {
			case "every":
				s.Spec.Selector = &metav1.LabelSelector{}
			case "wrong":
				s.Spec.Selector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "app", Operator: "?"}}}
			}
		}}}
		in, c := w.controller(t, replicaset.Options{})
		c.Watch(&w.queue)
		a := create(w.bench, replicaSet("a", 1))
		slow := replicaSet("b", 1)
		slow.Spec.MinReadySeconds = 30
		b := create(w.bench, slow)
		create(w.bench, replicaSet("every", 1))
		create(w.bench, replicaSet("wrong", 1))
		w.pod("ending", app("a"), a)
		w.remove(podAt("ending"))
		w.pod("ending-orphan", app("b"), nil)
		w.remove(podAt("ending-orphan"))
		controllerstest.Go(t, in.ReplicaSets)
		w.want("sets that are there", "ns/a ns/b ns/every ns/wrong")
		controllerstest.Go(t, in.Pods)
		w.want("pods that are being deleted, seen for the first time", "ns/a")

		w.pod("plain", nil, nil)
		w.want("an orphan without labels", "")
		w.pod("orphan", app("a"), nil)
		w.want("an orphan", "ns/a")
		w.change("orphan", func(p *corev1.Pod) { p.Status.Phase = corev1.PodRunning })
		w.want("an orphan that changes", "")
		w.change("orphan", func(p *corev1.Pod) { p.Labels = app("b") })
		w.want("an orphan with other labels", "ns/b")
		w.change("orphan", func(p *corev1.Pod) { own(p, a) })
		w.want("one that is adopted", "ns/a")
		w.change("orphan", func(p *corev1.Pod) { own(p, nil) })
		w.want("one that is released, and selected by another", "ns/a ns/b")
		stranger := a.DeepCopy()
		stranger.UID = "before"
		w.pod("strange", app("a"), stranger)
		w.want("one of a set that is no more", "")
		w.change("strange", func(p *corev1.Pod) { p.Labels = app("b") })
		w.want("and its change", "")

		ready := func(status corev1.ConditionStatus) func(*corev1.Pod) {
			return func(p *corev1.Pod) {
				p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: status, LastTransitionTime: metav1.NewTime(time.Now())}}
			}
		}
		for _, tt := range []struct {
			set      *appsv1.ReplicaSet
			own, now string
		}{{a, "ns/a", "ns/a"}, {b, "ns/b", "ns/b ns/b+30s"}} {
			name := "of-" + tt.set.Name
			w.pod(name, app(tt.set.Name), tt.set)
			w.want("a pod", tt.own)
			w.change(name, ready(corev1.ConditionFalse))
			w.want("one that is not ready", tt.own)
			w.change(name, ready(corev1.ConditionTrue))
			w.want("one that becomes ready", tt.now)
			w.change(name, func(p *corev1.Pod) { p.Annotations = map[string]string{"a": "b"} })
			w.want("one that stays ready", tt.own)
			w.change(name, ready(corev1.ConditionUnknown))
			w.want("one that is ready no more", tt.own)
		}
		w.change("of-a", func(p *corev1.Pod) { own(p, b) })
		w.want("one that changes hands", "ns/a ns/b")
		w.remove(podAt("of-a"))
		w.want("one that is being deleted", "ns/b")
		w.change("of-a", func(p *corev1.Pod) { own(p, a); p.Labels = app("x") })
		w.want("one that changes hands and labels meanwhile", "ns/a ns/b")
		w.change("of-a", func(p *corev1.Pod) { p.Finalizers = nil })
		w.want("one that is gone", "ns/a")
		w.remove(at("b"))
		w.want("the end of a set", "ns/b")
	})
}
