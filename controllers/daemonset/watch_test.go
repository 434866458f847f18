package daemonset_test

import (
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/controllers"
	"github.com/keelson-dev/keelson/controllers/controllerstest"
	"github.com/keelson-dev/keelson/controllers/daemonset"
	"github.com/keelson-dev/keelson/controllers/internal/trial"
)

// watched is a controller that does not run: its queue records what it would reconcile.
type watched struct {
	*bench
	controller *daemonset.Controller
	queue      trial.Queue
}

func watch(t *testing.T, test func(*watched)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &watched{bench: &bench{}}
		in, c := w.bench.controller(t, daemonset.Options{})
		w.controller = c
		c.Watch(&w.queue)
		controllerstest.Go(t, in.DaemonSets, in.Revisions, in.Pods, in.Nodes)
		synctest.Wait()
		test(w)
	})
}

func (w *watched) want(what, want string) {
	w.Helper()
	synctest.Wait()
	if got := w.queue.Take(); got != want {
		w.Errorf("%s: %q, want %q", what, got, want)
	}
}

// two are sets "a" and "b", of which b has pods that are to be ready for 30 s.
func (w *watched) two() (a, b *appsv1.DaemonSet) {
	w.Helper()
	named := func(name string, least int32) *appsv1.DaemonSet {
		return create(w.bench, &appsv1.DaemonSet{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}, Spec: appsv1.DaemonSetSpec{MinReadySeconds: least},
		})
	}
	a, b = named("a", 0), named("b", 30)
	w.want("sets", "ns/a ns/b")
	return a, b
}

func own(obj metav1.Object, owner *appsv1.DaemonSet) {
	obj.SetOwnerReferences(nil)
	if owner != nil {
		obj.SetOwnerReferences([]metav1.OwnerReference{*metav1.NewControllerRef(owner, appsv1.SchemeGroupVersion.WithKind("DaemonSet"))})
	}
}

// TestWatchUnlabelled: a pod without labels is adopted by nobody, even if a selector says what labels must not be there.
func TestWatchUnlabelled(t *testing.T) {
	watch(t, func(w *watched) {
		create(w.bench, logs(func(set *appsv1.DaemonSet) {
			set.Spec.Selector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "x", Operator: metav1.LabelSelectorOpDoesNotExist}}}
		}))
		w.want("a set", "ns/log")
		create(w.bench, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "labelled", Labels: app("log")}})
		w.want("with labels", "ns/log")
		create(w.bench, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "plain"}})
		w.want("without labels", "")
	})
}

// TestWatchNewSet: a new set of the same name does not wait for the pods of its predecessor.
func TestWatchNewSet(t *testing.T) {
	watch(t, func(w *watched) {
		w.nodes("n")
		w.pods.Hold()
		for range 2 {
			set := create(w.bench, logs())
			w.queue.Take()
			w.api.Reset()
			for range 2 { // the first look may only make the revision
				if _, err := w.controller.Reconcile(w.Context(), controllers.KeyOf(set)); err != nil {
					w.Fatal(err)
				}
				synctest.Wait()
			}
			made := 0
			for _, r := range w.api.Requests() {
				if r.Verb == "create" && r.Target.Resource.Resource == "pods" {
					made++
				}
			}
			if made != 1 {
				w.Errorf("%d pods created: %v", made, w.api.Requests())
			}
			if err := w.api.Others.Delete(w.Context(), client.Target{Resource: setResource(), Namespace: "ns", Name: "log"}, metav1.DeleteOptions{}); err != nil {
				w.Fatal(err)
			}
			synctest.Wait()
		}
		w.pods.Resume()
	})
}

// TestWatchPods: which sets are queued by a change of a pod.
func TestWatchPods(t *testing.T) {
	watch(t, func(w *watched) {
		a, b := w.two()
		add := func(name string, labels map[string]string, owner *appsv1.DaemonSet) {
			w.Helper()
			p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, Labels: labels, Finalizers: []string{"x/y"}}}
			own(p, owner)
			create(w.bench, p)
		}
		add("plain", nil, nil)
		w.want("an orphan without labels", "")
		add("orphan", app("a"), nil)
		w.want("an orphan", "ns/a")
		update(w.bench, podAt("orphan"), func(p *corev1.Pod) { p.Annotations = app("x") })
		w.want("an orphan that changes", "")
		update(w.bench, podAt("orphan"), func(p *corev1.Pod) { p.Labels = app("b") })
		w.want("an orphan with other labels", "ns/b")
		update(w.bench, podAt("orphan"), func(p *corev1.Pod) { own(p, a) })
		w.want("one that is adopted", "ns/a")
		update(w.bench, podAt("orphan"), func(p *corev1.Pod) { own(p, nil) })
		w.want("one that is released, and selected by another", "ns/a ns/b")
		update(w.bench, podAt("orphan"), func(p *corev1.Pod) { own(p, a) })
		update(w.bench, podAt("orphan"), func(p *corev1.Pod) { own(p, b) })
		w.want("one that changes hands", "ns/a ns/b")
		stranger := a.DeepCopy()
		stranger.UID = "before"
		add("strange", app("a"), stranger)
		w.want("one of a set that is no more", "")

		ready := func(status corev1.ConditionStatus) func(*corev1.Pod) {
			return func(p *corev1.Pod) {
				p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: status, LastTransitionTime: metav1.NewTime(time.Now())}}
			}
		}
		for _, tt := range []struct {
			set      *appsv1.DaemonSet
			own, now string
		}{{a, "ns/a", "ns/a"}, {b, "ns/b", "ns/b ns/b+31s"}} {
			name := "of-" + tt.set.Name
			add(name, app(tt.set.Name), tt.set)
			w.want("a pod", tt.own)
			update(w.bench, statusOf(podAt(name)), ready(corev1.ConditionFalse))
			w.want("one that is not ready", tt.own)
			update(w.bench, statusOf(podAt(name)), ready(corev1.ConditionTrue))
			w.want("one that becomes ready", tt.now)
			update(w.bench, podAt(name), func(p *corev1.Pod) { p.Annotations = app("x") })
			w.want("one that stays ready", tt.own)
		}
		w.remove(podAt("of-a"))
		w.want("one that is being deleted", "ns/a")
		update(w.bench, podAt("of-a"), func(p *corev1.Pod) { p.Finalizers = nil })
		w.want("one that is gone", "ns/a")
		w.remove(at("b"))
		w.want("the end of a set", "ns/b")
	})
}

// TestWatchRevisions: which sets are queued by a change of a revision.
func TestWatchRevisions(t *testing.T) {
	watch(t, func(w *watched) {
		a, b := w.two()
		add := func(name string, labels map[string]string, owner *appsv1.DaemonSet) {
			w.Helper()
			r := &appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, Labels: labels}}
			r.Data.Raw = []byte(`{"a":1}`)
			own(r, owner)
			create(w.bench, r)
		}
		add("plain", nil, nil)
		w.want("an orphan without labels", "")
		add("orphan", app("a"), nil)
		w.want("an orphan", "ns/a")
		update(w.bench, revisionAt("orphan"), func(r *appsv1.ControllerRevision) { r.Annotations = app("x") })
		w.want("an orphan that changes", "")
		update(w.bench, revisionAt("orphan"), func(r *appsv1.ControllerRevision) { r.Labels = app("b") })
		w.want("an orphan with other labels", "ns/b")
		update(w.bench, revisionAt("orphan"), func(r *appsv1.ControllerRevision) { own(r, a) })
		w.want("one that is adopted", "ns/a")
		update(w.bench, revisionAt("orphan"), func(r *appsv1.ControllerRevision) { own(r, b) })
		w.want("one that changes hands", "ns/a ns/b")
		update(w.bench, revisionAt("orphan"), func(r *appsv1.ControllerRevision) { own(r, nil) })
		w.want("one that is released", "ns/b")
		add("owned", app("a"), a)
		w.want("one that the controller has made", "")
		update(w.bench, revisionAt("owned"), func(r *appsv1.ControllerRevision) { r.Revision = 2 })
		w.want("its change", "ns/a")
		w.remove(revisionAt("owned"))
		w.want("its end", "ns/a")
		w.remove(revisionAt("orphan"))
		w.want("the end of an orphan", "")
	})
}

// TestWatchRevisionThatEnds: one that is being deleted already when it is first seen.
func TestWatchRevisionThatEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &watched{bench: &bench{}}
		in, c := w.bench.controller(t, daemonset.Options{})
		c.Watch(&w.queue)
		controllerstest.Go(t, in.DaemonSets)
		synctest.Wait()
		a, _ := w.two()
		r := &appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "r", Finalizers: []string{"x/y"}}}
		r.Data.Raw = []byte(`{"a":1}`)
		own(r, a)
		create(w.bench, r)
		w.remove(revisionAt("r"))
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", Labels: app("b"), Finalizers: []string{"x/y"}}}
		create(w.bench, p)
		w.remove(podAt("p"))
		w.want("before they are seen", "")
		controllerstest.Go(t, in.Revisions, in.Pods)
		w.want("once they are seen", "ns/a")
	})
}

// TestWatchNodes: which sets are queued once a node has changed.
func TestWatchNodes(t *testing.T) {
	watch(t, func(w *watched) {
		a, _ := w.two()
		looked := func(what, want string) {
			w.Helper()
			w.want(what, "n")
			if _, err := w.controller.Reconcile(w.Context(), controllers.Key{Name: "n"}); err != nil {
				w.Error(err)
			}
			w.want(what+": the sets", want)
		}
		w.nodes("n")
		looked("a node", "ns/a ns/b")
		p := pod("n-1")
		own(p, a)
		create(w.bench, p)
		w.want("a pod on it", "ns/a")
		relabel := func(value string) {
			update(w.bench, nodeAt("n"), func(n *corev1.Node) { n.Labels["x"] = value })
		}
		relabel("1")
		looked("labels", "ns/b")
		update(w.bench, nodeAt("n"), func(n *corev1.Node) { n.Annotations = app("x") })
		w.want("annotations", "")
		taints := func(effects ...corev1.TaintEffect) {
			update(w.bench, nodeAt("n"), func(n *corev1.Node) {
				n.Spec.Taints = nil
				for _, e := range effects {
					n.Spec.Taints = append(n.Spec.Taints, taint("x", e))
				}
			})
		}
		taints(corev1.TaintEffectNoSchedule)
		looked("a taint", "")
		taints(corev1.TaintEffectNoExecute)
		looked("a hard taint", "ns/a")
		taints()
		looked("no taint", "ns/b")
		update(w.bench, statusOf(at("a")), func(set *appsv1.DaemonSet) { set.Status.NumberMisscheduled = 1 })
		w.want("a status", "ns/a")
		relabel("2")
		looked("misscheduled pods", "ns/a ns/b")
		other := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "other"}, Spec: corev1.PodSpec{NodeName: "n"}}
		other.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "b", UID: "u", Controller: new(true)}}
		create(w.bench, other)
		relabel("3")
		looked("a pod of another kind", "ns/a ns/b")
		w.remove(nodeAt("n"))
		w.want("the end of a node", "")
		if _, err := w.controller.Reconcile(w.Context(), controllers.Key{Name: "n"}); err != nil {
			w.Error(err)
		}
		w.want("a node that is gone", "")
	})
}
