package endpointslice_test

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/client/faults"
	"github.com/keelson-dev/keelson/controllers"
	"github.com/keelson-dev/keelson/controllers/controllerstest"
	"github.com/keelson-dev/keelson/controllers/endpointslice"
	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/lifecycle"
)

// The controller reads from informers and writes through a client; here both are an API in
// memory. It ends with the first slice.
func Example() {
	services, nodes := corev1.SchemeGroupVersion.WithResource("services"), corev1.SchemeGroupVersion.WithResource("nodes")
	resource := discoveryv1.SchemeGroupVersion.WithResource("endpointslices")
	ctx, stop := context.WithCancel(context.Background())
	s := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec:       corev1.ServiceSpec{Selector: map[string]string{"app": "web"}, Ports: []corev1.ServicePort{{Port: 80}}},
	}
	api, err := controllerstest.New(controllerstest.Options{Objects: []informer.Object{s}, Before: func(r faults.Request) error {
		if r.Target.Resource == resource {
			fmt.Println(r)
			stop()
		}
		return nil
	}})
	if err != nil {
		fmt.Println(err)
		return
	}
	in := endpointslice.Sources{
		Services:       informer.New(controllerstest.Source[*corev1.Service](api, services), informer.Options{}),
		Pods:           informer.New(controllerstest.Source[*corev1.Pod](api, controllerstest.Pods()), informer.Options{}),
		Nodes:          informer.New(controllerstest.Source[*corev1.Node](api, nodes), informer.Options{}),
		EndpointSlices: informer.New(controllerstest.Source[*discoveryv1.EndpointSlice](api, resource), informer.Options{}),
	}
	loop := controllers.NewLoop(endpointslice.New(in, api, &controllerstest.Recorder{}, endpointslice.Options{}), controllers.Options{})

	fmt.Println(lifecycle.Group(api, in.Services, in.Pods, in.Nodes, in.EndpointSlices, loop).Run(ctx))
	// Output:
	// create endpointslices default/web-
	// <nil>
}
