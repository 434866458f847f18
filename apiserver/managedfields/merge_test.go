package managedfields_test

import (
	"encoding/json"
	"reflect"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/apiserver/managedfields"
)

// A configuration merges as in an apply, but nobody owns what it sets, and what the schema replaces as a whole is refused.
func TestMerge(t *testing.T) {
	pods := &managedfields.Version{GroupVersionKind: corev1.SchemeGroupVersion.WithKind("Pod"), New: func() managedfields.Object { return &corev1.Pod{} }}
	for config, want := range map[string]string{
		`{}`: "main:1",
		`{"spec":{"containers":[{"name":"main","image":"main:2"}]}}`: "main:2",
		`{"spec":{"containers":[{"name":"side","image":"side:1"}]}}`: "main:1 side:1",
		`{"spec":{"nodeSelector":{"a":"b"}}}`:                        "invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: .spec.nodeSelector",
		`{"spec":{"containers":[{"name":"main","args":["a"]}]}}`:     "invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: .spec.containers[0].args",
		`{"unknown":1}`: "failed to convert patch object to typed object: .unknown: field not declared in schema",
		`{"spec":{"containers":[{"name":"side"},{"name":"side"}]}}`: `failed to convert patch object to typed object: .spec.containers: duplicate entries for key [name="side"]`,
	} {
		var fields map[string]any
		if err := json.Unmarshal([]byte(config), &fields); err != nil {
			t.Fatal(err)
		}
		live := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: "p", ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "m", Operation: "Update", APIVersion: "v1", FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(`{}`)}}},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "main:1"}}},
		}
		before := live.DeepCopy()
		var schema managedfields.Schema
		merged, err := schema.Merge(pods, live, fields)
		got := ""
		if err != nil {
			got = err.Error()
		} else {
			pod := merged.(*corev1.Pod)
			for i, c := range pod.Spec.Containers {
				if i > 0 {
					got += " "
				}
				got += c.Image
			}
			if !reflect.DeepEqual(pod.ManagedFields, before.ManagedFields) || pod.Name != "p" {
				t.Errorf("%s: metadata %+v", config, pod.ObjectMeta)
			}
		}
		if got != want {
			t.Errorf("%s: got %s, want %s", config, got, want)
		}
		if !reflect.DeepEqual(live, before) {
			t.Errorf("%s: the live object was changed", config)
		}
	}
}
