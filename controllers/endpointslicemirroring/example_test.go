package endpointslicemirroring_test

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/client/faults"
	"github.com/keelson-dev/keelson/controllers"
	"github.com/keelson-dev/keelson/controllers/controllerstest"
	"github.com/keelson-dev/keelson/controllers/endpointslicemirroring"
	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/lifecycle"
)

// The controller reads from informers and writes through a client; here both are an API in
// memory. It ends with the first slice.
func Example() {
	ctx, stop := context.WithCancel(context.Background())
	s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "database"}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 5432}}}}
	e := &corev1.Endpoints{ObjectMeta: metav1.ObjectMeta{Name: "database"}, Subsets: []corev1.EndpointSubset{{
		Addresses: []corev1.EndpointAddress{{IP: "192.0.2.1"}}, Ports: []corev1.EndpointPort{{Port: 5432}},
	}}}
	api, err := controllerstest.New(controllerstest.Options{Objects: []informer.Object{s, e}, Before: func(r faults.Request) error {
		fmt.Println(r)
		stop()
		return nil
	}})
	if err != nil {
		fmt.Println(err)
		return
	}
	in := endpointslicemirroring.Sources{
		Services:       informer.New(controllerstest.Source[*corev1.Service](api, corev1.SchemeGroupVersion.WithResource("services")), informer.Options{}),
		Endpoints:      informer.New(controllerstest.Source[*corev1.Endpoints](api, corev1.SchemeGroupVersion.WithResource("endpoints")), informer.Options{}),
		EndpointSlices: informer.New(controllerstest.Source[*discoveryv1.EndpointSlice](api, discoveryv1.SchemeGroupVersion.WithResource("endpointslices")), informer.Options{}),
	}
	loop := controllers.NewLoop(endpointslicemirroring.New(in, api, &controllerstest.Recorder{}, endpointslicemirroring.Options{}), controllers.Options{})

	fmt.Println(lifecycle.Group(api, in.Services, in.Endpoints, in.EndpointSlices, loop).Run(ctx))
	// Output:
	// create endpointslices default/database-
	// <nil>
}
