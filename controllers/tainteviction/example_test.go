package tainteviction_test

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/controllers"
	"github.com/keelson-dev/keelson/controllers/tainteviction"
	"github.com/keelson-dev/keelson/events"
	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/internal/fakeapi"
	"github.com/keelson-dev/keelson/lifecycle"
)

// The controller reads from informers and writes through a client; here both are a server in
// memory. It ends with its first event.
func Example() {
	ctx, stop := context.WithCancel(context.Background())
	api := fakeapi.New(fakeapi.Options{})
	in := tainteviction.Sources{
		Nodes: informer.New(fakeapi.Source[*corev1.Node](api, nodes), informer.Options{}),
		Pods:  informer.New(fakeapi.Source[*corev1.Pod](api, fakeapi.Pods), informer.Options{}),
	}
	recorder := events.Func(func(e events.Event) {
		fmt.Println(e.Reason, e.Message)
		stop()
	})
	loop := controllers.NewLoop(tainteviction.New(in, api, recorder), controllers.Options{})

	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}
	node.Spec.Taints = []corev1.Taint{{Key: "example.com/maintenance", Effect: corev1.TaintEffectNoExecute}}
	if _, err := api.Create(ctx, client.Target{Resource: nodes}, node, metav1.CreateOptions{}); err != nil {
		fmt.Println(err)
		return
	}
	if _, err := api.Create(ctx, client.Target{Resource: fakeapi.Pods, Namespace: "ns"}, pod("web"), metav1.CreateOptions{}); err != nil {
		fmt.Println(err)
		return
	}
	if err := lifecycle.Group(in.Nodes, in.Pods, loop).Run(ctx); err != nil {
		fmt.Println(err)
	}
	// Output:
	// TaintManagerEviction Marking for deletion Pod ns/web
}
