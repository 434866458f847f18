package replicaset_test

import (
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/controllers"
	"github.com/keelson-dev/keelson/controllers/controllerstest"
	"github.com/keelson-dev/keelson/controllers/replicaset"
	"github.com/keelson-dev/keelson/informer"
)

// BenchmarkLook is one look at a ReplicaSet of a thousand ready pods that needs nothing.
func BenchmarkLook(b *testing.B) {
	api := controllerstest.Start(b, controllerstest.Options{})
	in := replicaset.Sources{
		ReplicaSets: informer.New(controllerstest.Source[*appsv1.ReplicaSet](api, sets), informer.Options{}),
		Pods:        informer.New(controllerstest.Source[*corev1.Pod](api, controllerstest.Pods()), informer.Options{}),
	}
	c := replicaset.New(in, api, &controllerstest.Recorder{}, replicaset.Options{Burst: 1000})
	controllerstest.Go(b, in.ReplicaSets, in.Pods, &controllerstest.Node{API: api}, controllers.NewLoop(c, controllers.Options{}))
	controllerstest.Add(b, api, web(1000))
	for available := int32(0); available < 1000; time.Sleep(10 * time.Millisecond) {
		got, err := client.As[*appsv1.ReplicaSet](api.Others.Get(b.Context(), at("web")))
		if err != nil {
			b.Fatal(err)
		}
		available = got.Status.AvailableReplicas
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := c.Reconcile(b.Context(), controllers.Key{Namespace: "ns", Name: "web"}); err != nil {
			b.Fatal(err)
		}
	}
}
