package deployment_test

import (
	"testing"
	"testing/synctest"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/controllers/controllerstest"
	"github.com/keelson-dev/keelson/controllers/internal/trial"
)

func app(name string) map[string]string { return map[string]string{"app": name} }

func own(set *appsv1.ReplicaSet, owner *appsv1.Deployment) {
	set.OwnerReferences = nil
	if owner != nil {
		set.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(owner, appsv1.SchemeGroupVersion.WithKind("Deployment"))}
	}
}

// TestWatch: which Deployments are queued by a change.
func TestWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &bench{stored: func(d *appsv1.Deployment) {
			switch d.Name {
			case "every":
				selectingAll(d)
			case "wrong":
				d.Spec.Selector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "app", Operator: "?"}}}
			}
		}}
		in, c := b.controller(t)
		var q trial.Queue
		c.Watch(&q)
		want := func(what, want string) {
			t.Helper()
			synctest.Wait()
			if got := q.Take(); got != want {
				t.Errorf("%s: %q, want %q", what, got, want)
			}
		}
		named := func(name string, strategy appsv1.DeploymentStrategyType) *appsv1.Deployment {
			d := web(1)
			d.Name, d.Spec.Strategy = name, appsv1.DeploymentStrategy{Type: strategy}
			d.Spec.Selector.MatchLabels, d.Spec.Template.Labels = app(name), app(name)
			return create(b, d)
		}
		set := func(name string, labels map[string]string, owner *appsv1.Deployment, finalizers ...string) *appsv1.ReplicaSet {
			s := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "ns", Labels: labels, Finalizers: finalizers}}
			own(s, owner)
			return create(b, s)
		}
		change := func(name string, change func(*appsv1.ReplicaSet)) {
			t.Helper()
			update(b, target(replicaSets, name), change)
		}
		rolling := named("a", appsv1.RollingUpdateDeploymentStrategyType)
		recreated := named("b", appsv1.RecreateDeploymentStrategyType)
		named("every", appsv1.RecreateDeploymentStrategyType)
		named("wrong", appsv1.RecreateDeploymentStrategyType)
		set("going", app("a"), nil, "x/y")
		b.remove(target(replicaSets, "going"))
		controllerstest.Go(t, in.Deployments)
		want("Deployments that are there", "ns/a ns/b ns/every ns/wrong")
		controllerstest.Go(t, in.ReplicaSets, in.Pods)
		want("an orphan that is being deleted", "")

		set("plain", nil, nil)
		want("an orphan without labels", "")
		set("orphan", app("a"), nil)
		want("an orphan", "ns/a")
		change("orphan", func(s *appsv1.ReplicaSet) { s.Annotations = app("x") })
		want("an orphan that changes", "")
		change("orphan", func(s *appsv1.ReplicaSet) { s.Labels = app("b") })
		want("an orphan with other labels", "ns/b")
		change("orphan", func(s *appsv1.ReplicaSet) { s.Labels = nil })
		want("an orphan with no more labels", "")
		stranger := rolling.DeepCopy()
		stranger.UID = "before"
		set("strange", app("a"), stranger)
		want("one of a Deployment that is no more", "")

		owned := set("owned", app("a"), recreated)
		want("one of a Deployment", "ns/b")
		change("owned", func(s *appsv1.ReplicaSet) { s.Annotations = app("x") })
		want("one that changes", "ns/b")
		change("owned", func(s *appsv1.ReplicaSet) { own(s, rolling) })
		want("one that changes hands", "ns/a ns/b")
		change("owned", func(s *appsv1.ReplicaSet) { own(s, nil) })
		want("one that is released", "ns/a")
		change("owned", func(s *appsv1.ReplicaSet) { own(s, recreated) })
		want("one that is adopted", "ns/b")
		change("owned", func(s *appsv1.ReplicaSet) { own(s, nil) })
		want("one that is released, and selected by another", "ns/a ns/b")
		change("owned", func(s *appsv1.ReplicaSet) { own(s, recreated) })
		other := set("other", app("a"), rolling)
		want("two more", "ns/a ns/b")

		for name, owner := range map[string]*appsv1.ReplicaSet{"p-owned": owned, "p-other": other, "p-orphan": nil} {
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "ns"}}
			if owner != nil {
				pod.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(owner, appsv1.SchemeGroupVersion.WithKind("ReplicaSet"))}
			}
			create(b, pod)
		}
		want("pods", "")
		for _, tt := range []struct{ pod, want string }{{"p-other", ""}, {"p-orphan", ""}, {"p-owned", "ns/b"}} {
			b.remove(target(controllerstest.Pods(), tt.pod))
			want("the end of "+tt.pod, tt.want)
		}
		b.remove(target(replicaSets, "owned"))
		want("the end of a set", "ns/b")
		b.remove(target(replicaSets, "orphan"))
		want("the end of an orphan", "")
		update(b, target(deployments, "b"), func(d *appsv1.Deployment) { d.Labels = app("x") })
		want("a Deployment that changes", "ns/b")
		b.remove(target(deployments, "b"))
		want("the end of a Deployment", "ns/b")
	})
}
