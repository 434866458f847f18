package controllerruntime_test

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/informer/controllerruntime"
	"github.com/keelson-dev/keelson/informer/memory"
)

// A cache over a source in memory: code that reads through a client.Reader is tested without a server.
func Example() {
	source := memory.New[informer.Object]()
	source.Put(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "colours"}, Data: map[string]string{"sky": "blue"}})
	cache := controllerruntime.New(scheme.Scheme, controllerruntime.OpenerFunc(
		func(schema.GroupVersionKind) (informer.Source[informer.Object], bool, error) {
			return source, true, nil
		},
	), controllerruntime.Options{})

	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- cache.Start(ctx) }()
	cache.WaitForCacheSync(ctx)

	var colours corev1.ConfigMap
	if err := cache.Get(ctx, client.ObjectKey{Namespace: "default", Name: "colours"}, &colours); err != nil {
		fmt.Println(err)
	}
	fmt.Println(colours.Data["sky"])
	cancel()
	fmt.Println(<-done)
	// Output:
	// blue
	// <nil>
}
