package wire_test

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/informer/wire"
)

func ExampleNew() {
	config := &rest.Config{Host: "https://cluster.example"} // or from a kubeconfig
	source, err := wire.New[*corev1.Pod](config, scheme.Scheme, corev1.SchemeGroupVersion.WithResource("pods"),
		wire.Options{FieldSelector: "spec.nodeName=node-1"})
	if err != nil {
		fmt.Println(err)
		return
	}
	pods := informer.New(source, informer.Options{})
	ctx, cancel := context.WithCancel(context.Background())
	cancel() // a program would go on
	fmt.Println(pods.Run(ctx))
	// Output: <nil>
}
