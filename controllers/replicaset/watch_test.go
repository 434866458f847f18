package replicaset_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/controllers/internal/trial"
	"github.com/keelson-dev/keelson/controllers/replicaset"
	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/internal/fakeapi"
)

// watched is a controller that is told of changes, and does nothing.
type watched struct {
	*testing.T
	api   *fakeapi.Server
	queue trial.Queue
}

func (w *watched) want(what, want string) {
	w.Helper()
	synctest.Wait()
	if got := w.queue.Take(); got != want {
		w.Errorf("%s: %q, want %q", what, got, want)
	}
}

func (w *watched) set(name string, change func(*appsv1.ReplicaSet)) *appsv1.ReplicaSet {
	w.Helper()
	s := replicaSet(name, 1)
	if change != nil {
		change(s)
	}
	made, err := w.api.Create(w.Context(), client.Target{Resource: sets, Namespace: "ns"}, s, metav1.CreateOptions{})
	if err != nil {
		w.Fatal(err)
	}
	return made.(*appsv1.ReplicaSet)
}

// pod creates one that has these labels and this owner.
func (w *watched) pod(name, app string, owner *appsv1.ReplicaSet) {
	w.Helper()
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Finalizers: []string{"x/y"}}}
	if app != "" {
		p.Labels = map[string]string{"app": app}
	}
	own(p, owner)
	if _, err := w.api.Create(w.Context(), client.Target{Resource: fakeapi.Pods, Namespace: "ns"}, p, metav1.CreateOptions{}); err != nil {
		w.Fatal(err)
	}
}

func own(p *corev1.Pod, owner *appsv1.ReplicaSet) {
	p.OwnerReferences = nil
	if owner != nil {
		p.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(owner, appsv1.SchemeGroupVersion.WithKind("ReplicaSet"))}
	}
}

// change changes a pod, its status too.
func (w *watched) change(name string, change func(*corev1.Pod)) {
	w.Helper()
	synctest.Wait()
	at := client.Target{Resource: fakeapi.Pods, Namespace: "ns", Name: name}
	for _, subresource := range []string{"", "status"} {
		p, err := client.As[*corev1.Pod](w.api.Get(w.Context(), at))
		if subresource == "status" && apierrors.IsNotFound(err) {
			return // it went with its last finalizer
		}
		if err != nil {
			w.Fatal(err)
		}
		change(p)
		t := at
		t.Subresource = subresource
		if _, err := w.api.Update(w.Context(), t, p, metav1.UpdateOptions{}); err != nil {
			w.Fatal(err)
		}
	}
}

func (w *watched) delete(r schema.GroupVersionResource, name string) {
	w.Helper()
	if err := w.api.Delete(w.Context(), client.Target{Resource: r, Namespace: "ns", Name: name}, metav1.DeleteOptions{}); err != nil {
		w.Fatal(err)
	}
}

// TestWatch: which sets a change concerns.
func TestWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &watched{T: t, api: fakeapi.New(fakeapi.Options{})}
		in := replicaset.Sources{
			ReplicaSets: informer.New(fakeapi.Source[*appsv1.ReplicaSet](w.api, sets), informer.Options{}),
			Pods:        informer.New(fakeapi.Source[*corev1.Pod](w.api, fakeapi.Pods), informer.Options{}),
		}
		replicaset.New(in, w.api, &fakeapi.Recorder{}, replicaset.Options{}).Watch(&w.queue)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		a := w.set("a", nil)
		b := w.set("b", func(s *appsv1.ReplicaSet) { s.Spec.MinReadySeconds = 30 })
		w.set("every", func(s *appsv1.ReplicaSet) { s.Spec.Selector = &metav1.LabelSelector{} })
		w.set("wrong", func(s *appsv1.ReplicaSet) {
			s.Spec.Selector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "app", Operator: "?"}}}
		})
		w.pod("ending", "a", a)
		w.delete(fakeapi.Pods, "ending")
		w.pod("ending-orphan", "b", nil)
		w.delete(fakeapi.Pods, "ending-orphan")
		go func() { done <- in.ReplicaSets.Run(ctx) }()
		w.want("sets that are there", "ns/a ns/b ns/every ns/wrong")
		go func() { done <- in.Pods.Run(ctx) }()
		w.want("pods that are being deleted, seen for the first time", "ns/a")

		w.pod("plain", "", nil)
		w.want("an orphan without labels", "")
		w.pod("orphan", "a", nil)
		w.want("an orphan", "ns/a")
		w.change("orphan", func(p *corev1.Pod) { p.Status.Phase = corev1.PodRunning })
		w.want("an orphan that changes", "")
		w.change("orphan", func(p *corev1.Pod) { p.Labels = map[string]string{"app": "b"} })
		w.want("an orphan with other labels", "ns/b")
		w.change("orphan", func(p *corev1.Pod) { own(p, a) })
		w.want("one that is adopted", "ns/a")
		w.change("orphan", func(p *corev1.Pod) { own(p, nil) })
		w.want("one that is released, and selected by another", "ns/a ns/b")
		stranger := a.DeepCopy()
		stranger.UID = "before"
		w.pod("strange", "a", stranger)
		w.want("one of a set that is no more", "")
		w.change("strange", func(p *corev1.Pod) { p.Labels = map[string]string{"app": "b"} })
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
			w.pod(name, tt.set.Name, tt.set)
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
		w.delete(fakeapi.Pods, "of-a")
		w.want("one that is being deleted", "ns/b")
		w.change("of-a", func(p *corev1.Pod) { own(p, a); p.Labels = map[string]string{"app": "x"} })
		w.want("one that changes hands and labels meanwhile", "ns/a ns/b")
		w.change("of-a", func(p *corev1.Pod) { p.Finalizers = nil })
		w.want("one that is gone", "ns/a")
		w.delete(sets, "b")
		w.want("the end of a set", "ns/b")
		cancel()
		for range 2 {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
	})
}
