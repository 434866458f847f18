package custom_test

import (
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/objectmeta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// TestMetadata: metadata becomes what upstream's library makes of it, though it is not asked if that is certain.
func TestMetadata(t *testing.T) {
	v, _, _ := bothVersions(t, &apiextensionsv1.JSONSchemaProps{Type: "object"})
	r := rand.New(rand.NewPCG(1, 2))
	same, different := 0, 0
	for range 20000 {
		content := map[string]any{"apiVersion": "example.com/v1", "kind": "Widget", "metadata": randomMetadata(r)}
		want := runtime.DeepCopyJSON(content)
		meta, found, wantUnknown, wantErr := objectmeta.GetObjectMetaWithOptions(want, objectmeta.ObjectMetaOptions{ReturnUnknownFieldPaths: true})
		if wantErr == nil && found {
			wantErr = objectmeta.SetObjectMeta(want, meta)
		}
		got := &unstructured.Unstructured{Object: runtime.DeepCopyJSON(content)}
		unknown, err := v.Prune(got)
		if (err == nil) != (wantErr == nil) {
			t.Fatalf("%v: %v, wanted %v", content, err, wantErr)
		}
		if err != nil {
			continue
		}
		slices.Sort(unknown)
		slices.Sort(wantUnknown)
		if !slices.Equal(unknown, wantUnknown) || !reflect.DeepEqual(got.Object, want) {
			t.Fatalf("%v\nbecame %v, unknown %v\nwanted %v, unknown %v", content, got.Object, unknown, want, wantUnknown)
		}
		if reflect.DeepEqual(want, content) {
			same++
		} else {
			different++
		}
	}
	if min(same, different) < 1000 {
		t.Errorf("%d stayed the same, %d did not", same, different)
	}
}

// randomMetadata returns metadata that mostly is in order.
func randomMetadata(r *rand.Rand) any {
	wrong := []any{nil, "", "x", int64(0), int64(2), 2.5, true, []any{}, map[string]any{}, []any{"x"}, []any{nil}, map[string]any{"a": nil}, map[string]any{"a": map[string]any{"f": true}}, "\xff"}
	pick := func(right ...any) any {
		if r.IntN(40) == 0 {
			return wrong[r.IntN(len(wrong))]
		}
		return runtime.DeepCopyJSONValue(right[r.IntN(len(right))])
	}
	object := func(values map[string]func() any) map[string]any {
		out := map[string]any{}
		for _, name := range slices.Sorted(maps.Keys(values)) {
			if r.IntN(4) > 0 {
				out[name] = values[name]()
			}
		}
		if r.IntN(30) == 0 {
			out["unknown"] = pick("x")
		}
		return out
	}
	text := func() any { return pick("x", "y") }
	flag := func() any { return pick(true, false) }
	moment := func() any {
		return pick("2026-01-02T03:04:05Z", "2026-01-02T03:04:05Z", "2026-01-02T03:04:05Z", "2026-01-02T03:04:05+01:00", "2026-01-02T03:04:05.5Z", "0001-01-01T00:00:00Z", "2026-01-02t03:04:05Z")
	}
	if r.IntN(100) == 0 {
		return pick("x", nil, map[string]any{})
	}
	labels := func() any {
		return pick(map[string]any{"a": "b"}, map[string]any{"a": ""}, map[string]any{"a": text()})
	}
	values := map[string]func() any{
		"name": text, "generateName": text, "namespace": text, "selfLink": text, "uid": text, "resourceVersion": text,
		"generation": func() any { return pick(int64(3)) }, "deletionGracePeriodSeconds": func() any { return pick(int64(0)) },
		"labels": labels, "annotations": labels, "finalizers": func() any { return pick([]any{"a", ""}) },
	}
	if r.IntN(3) == 0 {
		values["creationTimestamp"], values["deletionTimestamp"] = moment, moment
		values["ownerReferences"] = func() any {
			return pick([]any{object(map[string]func() any{"apiVersion": text, "kind": text, "name": text, "uid": text, "controller": flag, "blockOwnerDeletion": flag})},
				[]any{map[string]any{"apiVersion": "v1", "kind": "", "name": "a", "uid": "b", "controller": false}})
		}
		values["managedFields"] = func() any {
			return pick([]any{object(map[string]func() any{
				"manager": text, "operation": text, "apiVersion": text, "fieldsType": text, "subresource": text, "time": moment,
				"fieldsV1": func() any {
					return pick(map[string]any{"f:a": map[string]any{".": map[string]any{}}}, map[string]any{})
				},
			})})
		}
	}
	return object(values)
}
