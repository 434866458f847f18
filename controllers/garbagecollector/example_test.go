package garbagecollector_test

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/client/faults"
	"github.com/keelson-dev/keelson/controllers"
	"github.com/keelson-dev/keelson/controllers/controllerstest"
	"github.com/keelson-dev/keelson/controllers/garbagecollector"
	"github.com/keelson-dev/keelson/events"
	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/lifecycle"
)

// A config map whose owner is nowhere is deleted. The API and the caches of it are in memory.
func Example() {
	ctx, stop := context.WithCancel(context.Background())
	lost := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "lost", OwnerReferences: []metav1.OwnerReference{
		{APIVersion: "v1", Kind: "ConfigMap", Name: "nobody", UID: "nobody"},
	}}}
	api, err := controllerstest.New(controllerstest.Options{Objects: []informer.Object{lost}, Before: func(r faults.Request) error {
		if r.Verb == faults.Delete {
			fmt.Println(r)
			stop()
		}
		return nil
	}})
	if err != nil {
		fmt.Println(err)
		return
	}
	kind := garbagecollector.Kind{
		GroupVersionKind: corev1.SchemeGroupVersion.WithKind("ConfigMap"), Resource: "configmaps", Namespaced: true,
		Objects: informer.New(controllerstest.Source[informer.Object](api, corev1.SchemeGroupVersion.WithResource("configmaps")), informer.Options{}),
	}
	collector := garbagecollector.New([]garbagecollector.Kind{kind}, api, events.Func(func(events.Event) {}))
	loop := controllers.NewLoop(collector, controllers.Options{})

	fmt.Println(lifecycle.Group(api, kind.Objects, loop).Run(ctx))
	// Output:
	// delete configmaps default/lost
	// <nil>
}
