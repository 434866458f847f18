package controllerruntime_test

import (
	"context"
	"errors"
	"runtime"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/keelson-dev/keelson/informer/controllerruntime"
)

// TestManager: a manager of controller-runtime runs on the cache; its client reads from it.
func TestManager(t *testing.T) {
	c, kube := start(t)
	m, err := manager.New(c.Config(), manager.Options{
		Scheme: scheme.Scheme, Metrics: server.Options{BindAddress: "0"},
		Controller: config.Controller{SkipNameValidation: new(true)}, // names are the process's, and tests run again in it
		NewCache: func(*rest.Config, cache.Options) (cache.Cache, error) {
			return controllerruntime.New(scheme.Scheme, opener(c), controllerruntime.Options{}), nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan string, 10)
	err = builder.ControllerManagedBy(m).For(&corev1.ConfigMap{}).Complete(reconcile.Func(func(ctx context.Context, r reconcile.Request) (reconcile.Result, error) {
		var cm corev1.ConfigMap
		if err := m.GetClient().Get(ctx, r.NamespacedName, &cm); err != nil || cm.Labels["mark"] != "me" {
			return reconcile.Result{}, client.IgnoreNotFound(err)
		}
		if cm.Data["seen"] == "yes" {
			done <- cm.Name
			return reconcile.Result{}, nil
		}
		cm.Data = map[string]string{"seen": "yes"}
		return reconcile.Result{}, m.GetClient().Update(ctx, &cm)
	}))
	if err != nil {
		t.Fatal(err)
	}
	run(t, "manager", m.Start)
	marked := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "a", Labels: map[string]string{"mark": "me"}}}
	if err := kube.Create(t.Context(), marked); err != nil {
		t.Fatal(err)
	}
	if name := <-done; name != "a" {
		t.Errorf("reconciled %s", name)
	}
}

func TestOptions(t *testing.T) {
	c, kube := start(t)
	mine := controllerruntime.New(scheme.Scheme, opener(c), controllerruntime.Options{ReaderFailOnMissingInformer: true, UnsafeDisableDeepCopy: true})
	i, err := mine.GetInformer(t.Context(), &corev1.ConfigMap{})
	if err != nil {
		t.Fatal(err)
	}
	run(t, "cache", mine.Start)
	if !mine.WaitForCacheSync(t.Context()) {
		t.Fatal("not synced")
	}
	if err := mine.Start(t.Context()); !errors.Is(err, controllerruntime.ErrStarted) {
		t.Errorf("a second start: %v", err)
	}
	err = mine.Get(t.Context(), client.ObjectKey{Name: "a"}, &corev1.Node{})
	if _, ok := errors.AsType[*cache.ErrResourceNotCached](err); !ok {
		t.Errorf("a kind without an informer: %v", err)
	}
	if err := kube.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "a"}, Data: map[string]string{"v": "1"}}); err != nil {
		t.Fatal(err)
	}
	var one, two corev1.ConfigMap
	for one.Name == "" {
		err := mine.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: "a"}, &one)
		if client.IgnoreNotFound(err) != nil {
			t.Fatal(err)
		}
	}
	if err := mine.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: "a"}, &two); err != nil {
		t.Fatal(err)
	}
	one.Data["v"] = "2"
	if two.Data["v"] != "2" {
		t.Error("the objects are copies")
	}
	if err := mine.RemoveInformer(t.Context(), &corev1.ConfigMap{}); err != nil {
		t.Fatal(err)
	}
	if err := mine.List(t.Context(), &corev1.ConfigMapList{}); err == nil {
		t.Error("a removed informer is read")
	}
	for !i.IsStopped() {
		runtime.Gosched()
	}
	if mine.NeedLeaderElection() {
		t.Error("it needs to be the leader")
	}
}
