package request_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/registry/request"
)

// FuzzPatch: no patch panics or produces anything but JSON.
func FuzzPatch(f *testing.F) {
	for _, seed := range []string{
		`{"spec":{"containers":[{"name":"c","image":"x"}]}}`, `{"metadata":{"labels":{"$patch":"replace","a":"b"}}}`,
		`{"metadata":{"$deleteFromPrimitiveList/finalizers":["a"]}}`, `{"spec":{"$setElementOrder/containers":[{"name":"c"}]}}`,
		`{"spec":{"$retainKeys":["a"]}}`, `[{"op":"add","path":"/metadata/labels/a","value":1}]`,
		`[{"op":"move","from":"/spec","path":"/spec/a"}]`, `[{"op":"copy","from":"","path":"/-"}]`, `[{"op":"replace","path":""}]`,
		`{"spec":null}`, `null`, `[]`, `7`, ``, `{"spec":{"template":{"spec":{"containers":[null]}}}}`, `[null]`, `[{}]`,
		`[{"op":"add","path":"/spec/containers/-1","value":{}}]`, `[{"op":"remove","path":"/spec/containers/99999999999999999999"}]`,
	} {
		for form := range 3 {
			f.Add(form, []byte(seed))
		}
	}
	pod, err := json.Marshal(&corev1.Pod{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		Spec:     corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i", Ports: []corev1.ContainerPort{{ContainerPort: 1}}}}},
	})
	if err != nil {
		f.Fatal(err)
	}
	deployment, err := json.Marshal(&appsv1.Deployment{TypeMeta: metav1.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"}})
	if err != nil {
		f.Fatal(err)
	}
	forms := []types.PatchType{types.JSONPatchType, types.MergePatchType, types.StrategicMergePatchType}
	f.Fuzz(func(t *testing.T, form int, patch []byte) {
		if len(patch) > 1<<14 {
			return
		}
		patchType := forms[((form%3)+3)%3]
		for schema, document := range map[runtime.Object][]byte{&corev1.Pod{}: pod, &appsv1.Deployment{}: deployment} {
			after, err := request.PatchDocument(t.Context(), document, patchType, patch, schema)
			if err == nil && !json.Valid(after) {
				t.Errorf("%s %q made %q", patchType, patch, after)
			}
		}
	})
}

// TestPatchEnds: a patch ends with its context, and returns the context's error.
func TestPatchEnds(t *testing.T) {
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	for form, patch := range map[types.PatchType]string{
		types.JSONPatchType: `[{"op":"test","path":"/a","value":1}]`, types.StrategicMergePatchType: `{"data":{}}`,
	} {
		if _, err := request.PatchDocument(gone, []byte(`{"a":1}`), form, []byte(patch), &corev1.ConfigMap{}); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", form, err)
		}
	}
}
