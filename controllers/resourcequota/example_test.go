package resourcequota_test

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/controllers"
	"github.com/keelson-dev/keelson/controllers/resourcequota"
	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/internal/fakeapi"
	"github.com/keelson-dev/keelson/lifecycle"
)

// A new quota gets its status. Server and caches are in memory.
func Example() {
	ctx, stop := context.WithCancel(context.Background())
	api := fakeapi.New(fakeapi.Options{Before: func(a fakeapi.Action) error {
		if a.Target.Subresource == "status" {
			fmt.Println(a)
			stop()
		}
		return nil
	}})
	sources := resourcequota.Sources{
		Quotas:   informer.New(fakeapi.Source[*corev1.ResourceQuota](api, in("resourcequotas")), informer.Options{}),
		Pods:     informer.New(fakeapi.Source[*corev1.Pod](api, in("pods")), informer.Options{}),
		Services: informer.New(fakeapi.Source[*corev1.Service](api, in("services")), informer.Options{}),
	}
	loop := controllers.NewLoop(resourcequota.New(sources, api, resourcequota.Options{}), controllers.Options{})
	if _, err := api.Create(ctx, client.Target{Resource: in("resourcequotas"), Namespace: "ns"}, quotaOf("pods", "5"), metav1.CreateOptions{}); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(lifecycle.Group(sources.Quotas, sources.Pods, sources.Services, loop).Run(ctx))
	// Output:
	// update resourcequotas/status ns/q
	// <nil>
}
