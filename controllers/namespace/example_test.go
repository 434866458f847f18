package namespace_test

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/client/faults"
	"github.com/keelson-dev/keelson/controllers"
	"github.com/keelson-dev/keelson/controllers/controllerstest"
	"github.com/keelson-dev/keelson/controllers/namespace"
	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/lifecycle"
)

// A namespace is deleted and has nothing in it. The API and the cache of it are in memory; the grace is cut
// short so that the example ends at once.
func Example() {
	namespaces := corev1.SchemeGroupVersion.WithResource("namespaces")
	ctx, stop := context.WithCancel(context.Background())
	api, err := controllerstest.New(controllerstest.Options{Before: func(r faults.Request) error {
		if r.Verb == faults.Update {
			fmt.Println(r)
		}
		if r.Target.Subresource == "finalize" {
			stop()
		}
		return nil
	}})
	if err != nil {
		fmt.Println(err)
		return
	}
	in := informer.New(controllerstest.Source[*corev1.Namespace](api, namespaces), informer.Options{})
	resources := func(context.Context) ([]schema.GroupVersionResource, error) {
		return []schema.GroupVersionResource{corev1.SchemeGroupVersion.WithResource("configmaps")}, nil
	}
	loop := controllers.NewLoop(namespace.New(in, api, resources, namespace.Options{Grace: 1}), controllers.Options{})

	deleted := lifecycle.Func(func(ctx context.Context) error {
		if err := api.Add(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}); err != nil {
			return err
		}
		return api.Others.Delete(ctx, client.Target{Resource: namespaces, Name: "shop"}, metav1.DeleteOptions{})
	})
	fmt.Println(lifecycle.Group(api, in, loop, deleted).Run(ctx))
	// Output:
	// update namespaces/status shop
	// update namespaces/finalize shop
	// <nil>
}
