package custom_test

import (
	"fmt"
	"reflect"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/keelson-dev/keelson/registry/custom"
)

// TestSharedSets: the managed fields of stored objects share equal sets of fields, whichever objects there were between.
func TestSharedSets(t *testing.T) {
	r, err := custom.New(parse(t, `- {name: v1, served: true, storage: true, schema: {openAPIV3Schema: `+anything+`}}`), custom.Options{})
	if err != nil {
		t.Fatal(err)
	}
	k := r.Kind()
	stored := func(field string) map[string]any {
		u := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"name": "a", "managedFields": []any{
			map[string]any{"manager": "m", "fieldsV1": map[string]any{"f:spec": map[string]any{field: map[string]any{}}}},
		}}}}
		k.Rules.Store(u)
		entries, _, _ := unstructured.NestedFieldNoCopy(u.Object, "metadata", "managedFields")
		set := entries.([]any)[0].(map[string]any)["fieldsV1"].(map[string]any)
		if _, ok := set["f:spec"].(map[string]any)[field]; !ok {
			t.Fatalf("the set of %s is %v", field, set)
		}
		return set
	}
	at := func(set map[string]any) uintptr { return reflect.ValueOf(set).Pointer() }
	first := stored("f:size")
	if at(first) == at(stored("f:other")) || at(first) != at(stored("f:size")) {
		t.Error("equal sets are not shared")
	}
	for n := range 1000 { // more than are known at a time
		stored(fmt.Sprint("f:", n))
	}
	again := stored("f:size")
	if at(again) != at(stored("f:size")) || len(first) != 1 {
		t.Error("equal sets are not shared after many others")
	}
	if at(again) == at(first) {
		t.Error("all sets are kept")
	}
	read := func() map[string]any {
		obj, err := k.DecodeStored([]byte(`{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"a","managedFields":[{"manager":"m","fieldsV1":{"f:spec":{"f:size":{}}}}]}}`))
		if err != nil {
			t.Fatal(err)
		}
		entries, _, _ := unstructured.NestedFieldNoCopy(obj.(object).Object, "metadata", "managedFields")
		return entries.([]any)[0].(map[string]any)["fieldsV1"].(map[string]any)
	}
	if at(read()) != at(again) {
		t.Error("what is read does not share what was stored")
	}
}
