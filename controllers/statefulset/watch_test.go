package statefulset_test

import (
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/controllers/controllerstest"
	"github.com/keelson-dev/keelson/controllers/internal/trial"
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
func (w *watched) pod(name, app string, owner *appsv1.StatefulSet) {
	w.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "ns", Finalizers: []string{"x/y"}}}
	if app != "" {
		pod.Labels = map[string]string{"app": app}
	}
	ownPod(pod, owner)
	create(w.bench, pod)
}

func (w *watched) change(name string, change func(*corev1.Pod)) {
	w.Helper()
	update(w.bench, at(controllerstest.Pods(), name), change)
}

func (w *watched) ready(name string, status corev1.ConditionStatus) {
	w.Helper()
	t := at(controllerstest.Pods(), name)
	t.Subresource = "status"
	update(w.bench, t, func(pod *corev1.Pod) {
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: status, LastTransitionTime: metav1.NewTime(time.Now())}}
	})
}

func ownPod(pod *corev1.Pod, owner *appsv1.StatefulSet) {
	pod.OwnerReferences = nil
	if owner != nil {
		pod.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(owner, appsv1.SchemeGroupVersion.WithKind("StatefulSet"))}
	}
}

func labelled(app string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { pod.Labels = map[string]string{"app": app} }
}

// named is a set that selects pods labelled with its name.
func named(name string, change ...func(*appsv1.StatefulSet)) *appsv1.StatefulSet {
	set := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "ns"}}
	for _, f := range change {
		f(set)
	}
	return set
}

// TestWatch: which sets are queued by a change.
func TestWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &watched{bench: &bench{stored: func(s *appsv1.StatefulSet) {
			switch s.Name {
			case "every":
				s.Spec.Selector = &metav1.LabelSelector{}
			case "wrong":
				s.Spec.Selector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "app", Operator: "?"}}}
			}
		}}}
		in, c := w.controller(t)
		c.Watch(&w.queue)
		a := create(w.bench, named("a", withClaims("data")))
		b := create(w.bench, named("b", func(set *appsv1.StatefulSet) { set.Spec.MinReadySeconds = 30 }))
		create(w.bench, named("every"))
		create(w.bench, named("wrong"))
		w.pod("ending", "a", a)
		w.remove(at(controllerstest.Pods(), "ending"), metav1.DeleteOptions{})
		w.pod("ending-orphan", "b", nil)
		w.remove(at(controllerstest.Pods(), "ending-orphan"), metav1.DeleteOptions{})
		controllerstest.Go(t, in.StatefulSets)
		w.want("sets that are there", "ns/a ns/b ns/every ns/wrong")
		controllerstest.Go(t, in.Pods)
		w.want("pods that are being deleted, seen for the first time", "ns/a")

		w.pod("plain", "", nil)
		w.want("an orphan without labels", "")
		w.pod("orphan", "a", nil)
		w.want("an orphan", "ns/a")
		w.change("orphan", func(p *corev1.Pod) { p.Annotations = map[string]string{"a": "b"} })
		w.want("an orphan that changes", "")
		w.change("orphan", labelled("b"))
		w.want("an orphan with other labels", "ns/b")
		w.change("orphan", func(p *corev1.Pod) { ownPod(p, a) })
		w.want("one that is adopted", "ns/a")
		w.change("orphan", func(p *corev1.Pod) { ownPod(p, nil) })
		w.want("one that is released, and selected by another", "ns/a ns/b")
		stranger := a.DeepCopy()
		stranger.UID = "before"
		w.pod("strange", "a", stranger)
		w.want("one of a set that is no more", "")
		w.change("strange", labelled("b"))
		w.want("and its change", "")

		for _, tt := range []struct {
			set      *appsv1.StatefulSet
			own, now string
		}{{a, "ns/a", "ns/a"}, {b, "ns/b", "ns/b ns/b+30s"}} {
			name := "of-" + tt.set.Name
			w.pod(name, tt.set.Name, tt.set)
			w.want("a pod", tt.own)
			w.ready(name, corev1.ConditionFalse)
			w.want("one that is not ready", tt.own)
			w.ready(name, corev1.ConditionTrue)
			w.want("one that becomes ready", tt.now)
			w.change(name, func(p *corev1.Pod) { p.Annotations = map[string]string{"a": "b"} })
			w.want("one that stays ready", tt.own)
			w.ready(name, corev1.ConditionUnknown)
			w.want("one that is ready no more", tt.own)
		}
		w.change("of-a", func(p *corev1.Pod) { ownPod(p, b) })
		w.want("one that changes hands", "ns/a ns/b")
		w.remove(at(controllerstest.Pods(), "of-a"), metav1.DeleteOptions{})
		w.want("one that is being deleted", "ns/b")
		w.change("of-a", func(p *corev1.Pod) { p.Finalizers = nil })
		w.want("one that is gone", "ns/b")

		controllerstest.Go(t, in.Claims)
		for name, want := range map[string]string{"data-a-0": "ns/a", "data-a-x": "", "log-a-0": "", "data-b-0": ""} {
			claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "ns"}}
			claim.Spec = a.Spec.VolumeClaimTemplates[0].Spec
			create(w.bench, claim)
			w.want("the claim "+name, want)
			update(w.bench, at(claims(), name), func(c *corev1.PersistentVolumeClaim) { c.Labels = map[string]string{"a": "b"} })
			w.want("its change", want)
			w.remove(at(claims(), name), metav1.DeleteOptions{})
			w.want("its end", want)
		}
		update(w.bench, at(sets(), "b"), func(set *appsv1.StatefulSet) { set.Labels = map[string]string{"a": "b"} })
		w.want("the change of a set", "ns/b")
		w.remove(at(sets(), "b"), metav1.DeleteOptions{})
		w.want("the end of a set", "ns/b")
	})
}
