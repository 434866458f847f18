package podgc_test

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/controllers"
	"github.com/keelson-dev/keelson/controllers/podgc"
	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/internal/fakeapi"
	"github.com/keelson-dev/keelson/lifecycle"
)

// The controller reads from informers and writes through a client; here both are a server in
// memory. It ends with its first deletion.
func Example() {
	ctx, stop := context.WithCancel(context.Background())
	api := fakeapi.New(fakeapi.Options{Before: func(a fakeapi.Action) error {
		if a.Verb == fakeapi.Delete {
			fmt.Println(a)
			stop()
		}
		return nil
	}})
	in := podgc.Sources{
		Nodes: informer.New(fakeapi.Source[*corev1.Node](api, nodes), informer.Options{}),
		Pods:  informer.New(fakeapi.Source[*corev1.Pod](api, fakeapi.Pods), informer.Options{}),
	}
	loop := controllers.NewLoop(podgc.New(in, api, podgc.Options{Terminated: 1}), controllers.Options{})
	for _, name := range []string{"first", "second"} {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: corev1.PodStatus{Phase: corev1.PodSucceeded}}
		if _, err := api.Create(ctx, client.Target{Resource: fakeapi.Pods, Namespace: "ns"}, pod, metav1.CreateOptions{}); err != nil {
			fmt.Println(err)
			return
		}
	}
	if err := lifecycle.Group(in.Nodes, in.Pods, loop).Run(ctx); err != nil {
		fmt.Println(err)
	}
	// Output:
	// delete pods ns/first
}
