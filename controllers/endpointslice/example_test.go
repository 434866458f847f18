package endpointslice_test

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/controllers"
	"github.com/keelson-dev/keelson/controllers/endpointslice"
	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/internal/fakeapi"
	"github.com/keelson-dev/keelson/lifecycle"
)

// The controller reads from informers and writes through a client; here both are a server in
// memory. It ends with the first slice.
func Example() {
	ctx, stop := context.WithCancel(context.Background())
	api := fakeapi.New(fakeapi.Options{Before: func(a fakeapi.Action) error {
		if a.Target.Resource == resource {
			fmt.Println(a)
			stop()
		}
		return nil
	}})
	in := endpointslice.Sources{
		Services:       informer.New(fakeapi.Source[*corev1.Service](api, services), informer.Options{}),
		Pods:           informer.New(fakeapi.Source[*corev1.Pod](api, fakeapi.Pods), informer.Options{}),
		Nodes:          informer.New(fakeapi.Source[*corev1.Node](api, nodes), informer.Options{}),
		EndpointSlices: informer.New(fakeapi.Source[*discoveryv1.EndpointSlice](api, resource), informer.Options{}),
	}
	loop := controllers.NewLoop(endpointslice.New(in, api, &fakeapi.Recorder{}, endpointslice.Options{}), controllers.Options{})

	s := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec:       corev1.ServiceSpec{Selector: map[string]string{"app": "web"}},
	}
	if _, err := api.Create(ctx, client.Target{Resource: services, Namespace: "default"}, s, metav1.CreateOptions{}); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(lifecycle.Group(in.Services, in.Pods, in.Nodes, in.EndpointSlices, loop).Run(ctx))
	// Output:
	// create endpointslices default/web-
	// <nil>
}
