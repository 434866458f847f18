package registry_test

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/storage/memory"
)

// A kind is declared once: names, types, defaults, rules. The registry serves it.
func Example() {
	notes := registry.Definition[*corev1.ConfigMap]{
		Names:        registry.Names{Kind: "ConfigMap", Plural: "configmaps", Singular: "configmap"},
		GroupVersion: corev1.SchemeGroupVersion,
		Namespaced:   true,
		New:          func() *corev1.ConfigMap { return &corev1.ConfigMap{} },
		NewList:      func() runtime.Object { return &corev1.ConfigMapList{} },
		Rules: registry.Rules[*corev1.ConfigMap]{
			Validate: func(c *corev1.ConfigMap) field.ErrorList {
				if c.Data["text"] == "" {
					return field.ErrorList{field.Required(field.NewPath("data").Key("text"), "")}
				}
				return nil
			},
		},
	}.Kind()
	store := memory.New(memory.Options{})
	reg, err := registry.New(store, []registry.Kind{notes}, registry.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	ended := make(chan error)
	go func() { ended <- reg.Run(ctx) }()
	if err := reg.WaitSynced(ctx); err != nil {
		fmt.Println(err)
	}

	resource, _ := reg.Resource(schema.GroupResource{Resource: "configmaps"})
	note := func(text string) *corev1.ConfigMap {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "note"}, Data: map[string]string{"text": text}}
	}
	_, err = resource.Create(ctx, note(""), registry.CreateOptions{})
	fmt.Println(errors.Is(err, registry.ErrInvalid))
	if _, err := resource.Create(ctx, note("first"), registry.CreateOptions{}); err != nil {
		fmt.Println(err)
	}
	_, err = resource.Create(ctx, note("second"), registry.CreateOptions{})
	fmt.Println(errors.Is(err, registry.ErrExists))
	item, err := resource.Get(ctx, "ns", "note", "") // the newest state
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(item.Object.(*corev1.ConfigMap).Data["text"])

	stop()
	fmt.Println(<-ended, store.Close())
	// Output:
	// true
	// true
	// first
	// <nil> <nil>
}
