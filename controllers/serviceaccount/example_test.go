package serviceaccount_test

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/client/faults"
	"github.com/keelson-dev/keelson/controllers"
	"github.com/keelson-dev/keelson/controllers/controllerstest"
	"github.com/keelson-dev/keelson/controllers/serviceaccount"
	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/lifecycle"
)

// A new namespace gets its account. The API and the caches of it are in memory.
func Example() {
	ctx, stop := context.WithCancel(context.Background())
	resource := corev1.SchemeGroupVersion.WithResource
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}
	api, err := controllerstest.New(controllerstest.Options{Objects: []informer.Object{namespace}, Before: func(r faults.Request) error {
		if r.Verb == faults.Create && r.Target.Resource == resource("serviceaccounts") {
			fmt.Println(r)
			stop()
		}
		return nil
	}})
	if err != nil {
		fmt.Println(err)
		return
	}
	in := serviceaccount.Sources{
		Namespaces:      informer.New(controllerstest.Source[*corev1.Namespace](api, resource("namespaces")), informer.Options{}),
		ServiceAccounts: informer.New(controllerstest.Source[*corev1.ServiceAccount](api, resource("serviceaccounts")), informer.Options{}),
	}
	loop := controllers.NewLoop(serviceaccount.New(in, api, serviceaccount.Options{}), controllers.Options{})
	fmt.Println(lifecycle.Group(api, in.Namespaces, in.ServiceAccounts, loop).Run(ctx))
	// Output:
	// create serviceaccounts shop/default
	// <nil>
}
