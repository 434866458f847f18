package resourcequota_test

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/client/faults"
	"github.com/keelson-dev/keelson/controllers"
	"github.com/keelson-dev/keelson/controllers/controllerstest"
	"github.com/keelson-dev/keelson/controllers/resourcequota"
	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/lifecycle"
)

// A new quota gets its status. The API and the caches of it are in memory.
func Example() {
	ctx, stop := context.WithCancel(context.Background())
	quota := &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "q"},
		Spec:       corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{corev1.ResourcePods: resource.MustParse("5")}},
	}
	in := corev1.SchemeGroupVersion.WithResource
	api, err := controllerstest.New(controllerstest.Options{Objects: []informer.Object{quota}, Before: func(r faults.Request) error {
		if r.Target.Subresource == "status" {
			fmt.Println(r)
			stop()
		}
		return nil
	}})
	if err != nil {
		fmt.Println(err)
		return
	}
	sources := resourcequota.Sources{
		Quotas:   informer.New(controllerstest.Source[*corev1.ResourceQuota](api, in("resourcequotas")), informer.Options{}),
		Pods:     informer.New(controllerstest.Source[*corev1.Pod](api, in("pods")), informer.Options{}),
		Services: informer.New(controllerstest.Source[*corev1.Service](api, in("services")), informer.Options{}),
	}
	loop := controllers.NewLoop(resourcequota.New(sources, api, resourcequota.Options{}), controllers.Options{})
	fmt.Println(lifecycle.Group(api, sources.Quotas, sources.Pods, sources.Services, loop).Run(ctx))
	// Output:
	// update resourcequotas/status ns/q
	// <nil>
}
