package namespace_test

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/controllers"
	"github.com/keelson-dev/keelson/controllers/namespace"
	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/internal/fakeapi"
	"github.com/keelson-dev/keelson/lifecycle"
)

// A namespace is deleted and has nothing in it. Server and cache are in memory; the grace is cut
// short so that the example ends at once.
func Example() {
	ctx, stop := context.WithCancel(context.Background())
	api := fakeapi.New(fakeapi.Options{Before: func(a fakeapi.Action) error {
		if a.Verb == fakeapi.Update {
			fmt.Println(a)
		}
		if a.Target.Subresource == "finalize" {
			stop()
		}
		return nil
	}})
	in := informer.New(fakeapi.Source[*corev1.Namespace](api, namespaces), informer.Options{})
	resources := func() ([]schema.GroupVersionResource, error) {
		return []schema.GroupVersionResource{configMaps}, nil
	}
	loop := controllers.NewLoop(namespace.New(in, api, resources, namespace.Options{Grace: 1}), controllers.Options{})

	shop := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}
	shop.Spec.Finalizers = []corev1.FinalizerName{corev1.FinalizerKubernetes}
	at := client.Target{Resource: namespaces}
	if _, err := api.Create(ctx, at, shop, metav1.CreateOptions{}); err != nil {
		fmt.Println(err)
		return
	}
	at.Name = "shop"
	fmt.Println(api.Delete(ctx, at, metav1.DeleteOptions{}))
	fmt.Println(lifecycle.Group(in, loop).Run(ctx))
	// Output:
	// <nil>
	// update namespaces/status shop
	// update namespaces/status shop
	// update namespaces/finalize shop
	// <nil>
}
