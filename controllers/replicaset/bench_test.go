package replicaset_test

import (
	"context"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/controllers"
	"github.com/keelson-dev/keelson/controllers/replicaset"
	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/internal/fakeapi"
	"github.com/keelson-dev/keelson/lifecycle"
)

// BenchmarkLook is one look at a ReplicaSet of a thousand ready pods that needs nothing.
func BenchmarkLook(b *testing.B) {
	api := fakeapi.New(fakeapi.Options{})
	in := replicaset.Sources{
		ReplicaSets: informer.New(fakeapi.Source[*appsv1.ReplicaSet](api, sets), informer.Options{}),
		Pods:        informer.New(fakeapi.Source[*corev1.Pod](api, fakeapi.Pods), informer.Options{}),
	}
	c := replicaset.New(in, api, &fakeapi.Recorder{}, replicaset.Options{Burst: 1000})
	ctx, cancel := context.WithCancel(b.Context())
	done := make(chan error)
	go func() {
		done <- lifecycle.Group(in.ReplicaSets, in.Pods, &fakeapi.Node{Server: api}, controllers.NewLoop(c, controllers.Options{})).Run(ctx)
	}()
	if _, err := api.Create(ctx, client.Target{Resource: sets, Namespace: "ns"}, replicaSet("web", 1000), metav1.CreateOptions{}); err != nil {
		b.Fatal(err)
	}
	for available := int32(0); available < 1000; time.Sleep(10 * time.Millisecond) {
		got, err := api.Get(ctx, client.Target{Resource: sets, Namespace: "ns", Name: "web"})
		if err != nil {
			b.Fatal(err)
		}
		available = got.(*appsv1.ReplicaSet).Status.AvailableReplicas
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := c.Reconcile(ctx, controllers.Key{Namespace: "ns", Name: "web"}); err != nil {
			b.Fatal(err)
		}
	}
	cancel()
	if err := <-done; err != nil {
		b.Error(err)
	}
}
