package managedfields_test

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/keelson-dev/keelson/apiserver/managedfields"
)

func Example() {
	var schema managedfields.Schema
	gvk := corev1.SchemeGroupVersion.WithKind("ConfigMap")
	kind := managedfields.Kind{Versions: []managedfields.Version{{
		GroupVersionKind: gvk, New: func() managedfields.Object { return &corev1.ConfigMap{} },
	}}}
	t := managedfields.New(&schema, kind, managedfields.Endpoint{Version: gvk.GroupVersion()})

	// Somebody creates an object.
	created := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "colors"}, Data: map[string]string{"sky": "blue", "sea": "green"}}
	t.Update(&corev1.ConfigMap{}, created, "painter")
	created.UID = "1" // now it exists

	// Somebody else wants it to be otherwise.
	config := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap",
		"metadata": map[string]any{"name": "colors"},
		"data":     map[string]any{"sky": "grey", "sun": "red"},
	}}
	_, err := t.Apply(created, config, "poet", false)
	fmt.Println(err)

	applied, err := t.Apply(created, config, "poet", true)
	if err != nil {
		panic(err)
	}
	fmt.Println(applied.(*corev1.ConfigMap).Data)
	for _, e := range applied.GetManagedFields() {
		fmt.Println(e.Manager, e.Operation, e.FieldsV1.GetRawString())
	}
	// Output:
	// Apply failed with 1 conflict: conflict with "painter" using v1: .data.sky
	// map[sea:green sky:grey sun:red]
	// poet Apply {"f:data":{"f:sky":{},"f:sun":{}}}
	// painter Update {"f:data":{".":{},"f:sea":{}}}
}
