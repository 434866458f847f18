package garbagecollector_test

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/controllers"
	"github.com/keelson-dev/keelson/controllers/garbagecollector"
	"github.com/keelson-dev/keelson/events"
	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/internal/fakeapi"
	"github.com/keelson-dev/keelson/lifecycle"
)

// A config map whose owner is nowhere is deleted. Server and caches are in memory.
func Example() {
	ctx, stop := context.WithCancel(context.Background())
	api := fakeapi.New(fakeapi.Options{Before: func(a fakeapi.Action) error {
		if a.Verb == fakeapi.Delete {
			fmt.Println(a)
			stop()
		}
		return nil
	}})
	kind := garbagecollector.Kind{
		GroupVersionKind: corev1.SchemeGroupVersion.WithKind("ConfigMap"), Resource: "configmaps", Namespaced: true,
		Objects: informer.New(fakeapi.Source[informer.Object](api, configMaps), informer.Options{}),
	}
	collector := garbagecollector.New([]garbagecollector.Kind{kind}, api, events.Func(func(events.Event) {}))
	loop := controllers.NewLoop(collector, controllers.Options{})

	lost := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "lost", OwnerReferences: []metav1.OwnerReference{
		{APIVersion: "v1", Kind: "ConfigMap", Name: "nobody", UID: "nobody"},
	}}}
	if _, err := api.Create(ctx, client.Target{Resource: configMaps, Namespace: "default"}, lost, metav1.CreateOptions{}); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(lifecycle.Group(kind.Objects, loop).Run(ctx))
	// Output:
	// delete configmaps default/lost
	// <nil>
}
