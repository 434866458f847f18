package nodelifecycle_test

import (
	"context"
	"fmt"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/controllers"
	"github.com/keelson-dev/keelson/controllers/controllerstest"
	"github.com/keelson-dev/keelson/controllers/nodelifecycle"
	"github.com/keelson-dev/keelson/events"
	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/lifecycle"
)

// The controller reads from informers and writes through a client; here both are an API in
// memory. It ends with its first event.
func Example() {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "rack-1"}}
	api, err := controllerstest.New(controllerstest.Options{Objects: []informer.Object{node}})
	if err != nil {
		fmt.Println(err)
		return
	}
	nodes, leases := corev1.SchemeGroupVersion.WithResource("nodes"), coordinationv1.SchemeGroupVersion.WithResource("leases")
	ctx, stop := context.WithCancel(context.Background())
	in := nodelifecycle.Sources{
		Nodes:  informer.New(controllerstest.Source[*corev1.Node](api, nodes), informer.Options{}),
		Pods:   informer.New(controllerstest.Source[*corev1.Pod](api, controllerstest.Pods()), informer.Options{}),
		Leases: informer.New(controllerstest.Source[*coordinationv1.Lease](api, leases), informer.Options{}),
	}
	recorder := events.Func(func(e events.Event) {
		fmt.Println(e.Reason, e.Message)
		stop()
	})
	loop := controllers.NewLoop(nodelifecycle.New(in, api, recorder, nodelifecycle.Options{}), controllers.Options{})

	fmt.Println(lifecycle.Group(api, in.Nodes, in.Pods, in.Leases, loop).Run(ctx))
	// Output:
	// RegisteredNode Node rack-1 event: Registered Node rack-1 in Controller
	// <nil>
}
