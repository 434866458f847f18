package replicaset_test

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/controllers"
	"github.com/keelson-dev/keelson/controllers/replicaset"
	"github.com/keelson-dev/keelson/events"
	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/internal/fakeapi"
	"github.com/keelson-dev/keelson/lifecycle"
)

// The controller reads from informers and writes through a client; here both are a server in
// memory. It ends with its first event.
func Example() {
	ctx, stop := context.WithCancel(context.Background())
	sets := appsv1.SchemeGroupVersion.WithResource("replicasets")
	api := fakeapi.New(fakeapi.Options{})
	in := replicaset.Sources{
		ReplicaSets: informer.New(fakeapi.Source[*appsv1.ReplicaSet](api, sets), informer.Options{}),
		Pods:        informer.New(fakeapi.Source[*corev1.Pod](api, fakeapi.Pods), informer.Options{}),
	}
	recorder := events.Func(func(e events.Event) {
		fmt.Println(e.Reason, e.Message)
		stop()
	})
	loop := controllers.NewLoop(replicaset.New(in, api, recorder, replicaset.Options{}), controllers.Options{})

	one, labels := int32(1), map[string]string{"app": "web"}
	set := &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: appsv1.ReplicaSetSpec{
			Replicas: &one,
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}},
		},
	}
	if _, err := api.Create(ctx, client.Target{Resource: sets, Namespace: "default"}, set, metav1.CreateOptions{}); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(lifecycle.Group(in.ReplicaSets, in.Pods, loop).Run(ctx))
	// Output:
	// SuccessfulCreate Created pod: web-00001
	// <nil>
}
