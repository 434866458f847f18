package deployment_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-dev/keelson/controllers/deployment"
	"github.com/keelson-dev/keelson/controllers/internal/trial"
	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/internal/fakeapi"
	"github.com/keelson-dev/keelson/lifecycle"
)

func sorted(lines []string) []string { return slices.Sorted(slices.Values(lines)) }

// TestWatch: which Deployments a change concerns.
func TestWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := fakeapi.New(fakeapi.Options{})
		in := deployment.Sources{
			Deployments: informer.New(fakeapi.Source[*appsv1.Deployment](api, deployments), informer.Options{}),
			ReplicaSets: informer.New(fakeapi.Source[*appsv1.ReplicaSet](api, replicaSets), informer.Options{}),
			Pods:        informer.New(fakeapi.Source[*corev1.Pod](api, fakeapi.Pods), informer.Options{}),
		}
		var q trial.Queue
		deployment.New(in, api, &fakeapi.Recorder{}, deployment.Options{}).Watch(&q)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		want := func(what, want string) {
			t.Helper()
			synctest.Wait()
			if got := q.Take(); got != want {
				t.Errorf("%s: %q, want %q", what, got, want)
			}
		}
		put := func(r schema.GroupVersionResource, obj runtime.Object) runtime.Object {
			t.Helper()
			made, err := api.Create(ctx, target(r, ""), obj, metav1.CreateOptions{})
			if err != nil {
				t.Fatal(err)
			}
			return made
		}
		update := func(r schema.GroupVersionResource, obj runtime.Object) runtime.Object {
			t.Helper()
			synctest.Wait()
			made, err := api.Update(ctx, target(r, ""), obj, metav1.UpdateOptions{})
			if err != nil {
				t.Fatal(err)
			}
			return made
		}
		remove := func(r schema.GroupVersionResource, name string) {
			t.Helper()
			if err := api.Delete(ctx, target(r, name), metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		named := func(name string, selector *metav1.LabelSelector, strategy appsv1.DeploymentStrategyType) *appsv1.Deployment {
			d := web(1)
			d.Name, d.Spec.Selector, d.Spec.Strategy = name, selector, appsv1.DeploymentStrategy{Type: strategy}
			return put(deployments, d).(*appsv1.Deployment)
		}
		app := func(name string) map[string]string { return map[string]string{"app": name} }
		rolling := named("a", &metav1.LabelSelector{MatchLabels: app("a")}, appsv1.RollingUpdateDeploymentStrategyType)
		recreated := named("b", &metav1.LabelSelector{MatchLabels: app("b")}, appsv1.RecreateDeploymentStrategyType)
		named("every", &metav1.LabelSelector{}, appsv1.RecreateDeploymentStrategyType)
		named("wrong", &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "app", Operator: "?"}}}, appsv1.RecreateDeploymentStrategyType)

		going := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Name: "going", Labels: app("a"), Finalizers: []string{"x/y"}}}
		put(replicaSets, going)
		remove(replicaSets, "going")
		go func() { done <- in.Deployments.Run(ctx) }()
		want("Deployments that are there", "ns/a ns/b ns/every ns/wrong")
		go func() { done <- lifecycle.Group(in.ReplicaSets, in.Pods).Run(ctx) }()
		want("an orphan that is being deleted", "")

		set := func(name string, labels map[string]string, owner *appsv1.Deployment) *appsv1.ReplicaSet {
			s := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}
			if owner != nil {
				s.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(owner, appsv1.SchemeGroupVersion.WithKind("Deployment"))}
			}
			return put(replicaSets, s).(*appsv1.ReplicaSet)
		}
		set("plain", nil, nil)
		want("an orphan without labels", "")
		orphan := set("orphan", app("a"), nil)
		want("an orphan", "ns/a")
		orphan.Annotations = app("x")
		orphan = update(replicaSets, orphan).(*appsv1.ReplicaSet)
		want("an orphan that changes", "")
		orphan.Labels = app("b")
		orphan = update(replicaSets, orphan).(*appsv1.ReplicaSet)
		want("an orphan with other labels", "ns/b")
		orphan.Labels = nil
		update(replicaSets, orphan)
		want("an orphan with no more labels", "")
		stranger := rolling.DeepCopy()
		stranger.UID = "before"
		set("strange", app("a"), stranger)
		want("one of a Deployment that is no more", "")

		owned := set("owned", app("a"), recreated)
		want("one of a Deployment", "ns/b")
		owned.Annotations = app("x")
		owned = update(replicaSets, owned).(*appsv1.ReplicaSet)
		want("one that changes", "ns/b")
		owned.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(rolling, appsv1.SchemeGroupVersion.WithKind("Deployment"))}
		owned = update(replicaSets, owned).(*appsv1.ReplicaSet)
		want("one that changes hands", "ns/a ns/b")
		owned.OwnerReferences, owned.Labels = nil, app("a")
		owned = update(replicaSets, owned).(*appsv1.ReplicaSet)
		want("one that is released", "ns/a")
		owned.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(recreated, appsv1.SchemeGroupVersion.WithKind("Deployment"))}
		owned = update(replicaSets, owned).(*appsv1.ReplicaSet)
		want("one that is adopted", "ns/b")
		owned.OwnerReferences = nil
		owned = update(replicaSets, owned).(*appsv1.ReplicaSet)
		want("one that is released, and selected by another", "ns/a ns/b")
		owned.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(recreated, appsv1.SchemeGroupVersion.WithKind("Deployment"))}
		owned = update(replicaSets, owned).(*appsv1.ReplicaSet)
		other := set("other", app("a"), rolling)
		want("two more", "ns/a ns/b")

		for name, owner := range map[string]*appsv1.ReplicaSet{"p-owned": owned, "p-other": other, "p-orphan": nil} {
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}}
			if owner != nil {
				pod.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(owner, appsv1.SchemeGroupVersion.WithKind("ReplicaSet"))}
			}
			put(fakeapi.Pods, pod)
		}
		want("pods", "")
		for _, tt := range []struct{ pod, want string }{{"p-other", ""}, {"p-orphan", ""}, {"p-owned", "ns/b"}} {
			remove(fakeapi.Pods, tt.pod)
			want("the end of "+tt.pod, tt.want)
		}
		remove(replicaSets, "owned")
		want("the end of a set", "ns/b")
		remove(replicaSets, "orphan")
		want("the end of an orphan", "")
		recreated.Labels = app("x")
		update(deployments, recreated)
		want("a Deployment that changes", "ns/b")
		remove(deployments, "b")
		want("the end of a Deployment", "ns/b")
		cancel()
		for range 2 {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
	})
}
