package direct_test

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/registry/core"
	"github.com/keelson-dev/keelson/registry/direct"
	"github.com/keelson-dev/keelson/storage/memory"
)

func Example() {
	reg, err := registry.New(memory.New(memory.Options{}), core.Kinds(core.Options{}), registry.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- reg.Run(ctx) }()
	defer func() { stop(); <-done }()

	c := direct.New(reg, direct.Options{})
	at := client.Target{Resource: corev1.SchemeGroupVersion.WithResource("configmaps"), Namespace: "default"}
	settings := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "settings"}, Data: map[string]string{"colour": "blue"}}
	stored, err := client.As[*corev1.ConfigMap](c.Create(ctx, at, settings, metav1.CreateOptions{}))
	fmt.Println(stored.Namespace, stored.Name, err)
	_, err = c.Create(ctx, at, settings, metav1.CreateOptions{})
	fmt.Println(err)
	// Output:
	// default settings <nil>
	// configmaps "settings" already exists
}
