package rootca_test

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/controllers"
	"github.com/keelson-dev/keelson/controllers/rootca"
	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/internal/fakeapi"
	"github.com/keelson-dev/keelson/lifecycle"
)

// A new namespace gets the certificate authority. Server and caches are in memory.
func Example() {
	ctx, stop := context.WithCancel(context.Background())
	api := fakeapi.New(fakeapi.Options{Before: func(a fakeapi.Action) error {
		if a.Verb == fakeapi.Create && a.Target.Resource == configMaps {
			fmt.Println(a)
			stop()
		}
		return nil
	}})
	in := rootca.Sources{
		Namespaces: informer.New(fakeapi.Source[*corev1.Namespace](api, namespaces), informer.Options{}),
		ConfigMaps: informer.New(fakeapi.Source[*corev1.ConfigMap](api, configMaps), informer.Options{}),
	}
	loop := controllers.NewLoop(rootca.New(in, api, []byte("PEM")), controllers.Options{})
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}, Status: corev1.NamespaceStatus{Phase: corev1.NamespaceActive}}
	if _, err := api.Create(ctx, client.Target{Resource: namespaces}, namespace, metav1.CreateOptions{}); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(lifecycle.Group(in.Namespaces, in.ConfigMaps, loop).Run(ctx))
	// Output:
	// create configmaps shop/kube-root-ca.crt
	// <nil>
}
