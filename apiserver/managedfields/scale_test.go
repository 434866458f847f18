package managedfields_test

import (
	"math/rand/v2"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	upstream "k8s.io/apimachinery/pkg/util/managedfields"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/keelson-dev/keelson/apiserver/managedfields"
)

// TestScaled holds the mapping between an object and its Scale to upstream's, for random entries.
func TestScaled(t *testing.T) {
	ours := managedfields.Scaled{Version: "apps/v1", Replicas: map[string][]string{
		"apps/v1": {"spec", "replicas"}, "example.com/v1": {"spec", "size"}, "example.com/v2": nil,
	}}
	paths := upstream.ResourcePathMappings{
		"apps/v1": fieldpath.MakePathOrDie("spec", "replicas"), "example.com/v1": fieldpath.MakePathOrDie("spec", "size"), "example.com/v2": nil,
	}
	r := rand.New(rand.NewPCG(3, 4))
	for range 5000 {
		object := randomEntries(r, "apps/v1", "example.com/v1", "example.com/v2", "example.com/v3")
		theirs := upstream.NewScaleHandler(object, schema.GroupVersion{Group: "apps", Version: "v1"}, paths)
		want, err := theirs.ToSubresource()
		if err != nil {
			t.Fatal(err)
		}
		got, err := ours.ToScale(object)
		if err != nil {
			t.Fatal(err)
		}
		if mustJSON(got) != mustJSON(want) {
			t.Fatalf("to scale: %s\nwant %s\n got %s", mustJSON(object), mustJSON(want), mustJSON(got))
		}
		scale := got
		if r.IntN(2) == 0 {
			scale = append(scale, randomEntries(r, "autoscaling/v1")...)
		}
		if r.IntN(3) == 0 && len(scale) > 0 {
			scale = scale[1:]
		}
		if want, err = theirs.ToParent(scale); err != nil {
			t.Fatal(err)
		}
		if got, err = ours.FromScale(object, scale); err != nil {
			t.Fatal(err)
		}
		if mustJSON(got) != mustJSON(want) {
			t.Fatalf("from scale: %s, %s\nwant %s\n got %s", mustJSON(object), mustJSON(scale), mustJSON(want), mustJSON(got))
		}
	}
}

func randomEntries(r *rand.Rand, versions ...string) []metav1.ManagedFieldsEntry {
	sets := []string{
		`{"f:spec":{"f:replicas":{}}}`, `{"f:spec":{"f:replicas":{},"f:size":{}}}`, `{"f:spec":{"f:size":{}},"f:status":{}}`,
		`{"f:metadata":{"f:labels":{}}}`, `{"f:spec":{".":{},"f:replicas":{}}}`, `{}`,
	}
	var entries []metav1.ManagedFieldsEntry
	for range r.IntN(4) {
		at := metav1.NewTime(time.Unix(int64(1+r.IntN(3)), 0).UTC())
		entries = append(entries, metav1.ManagedFieldsEntry{
			Manager: []string{"a", "b", "c"}[r.IntN(3)], Operation: []metav1.ManagedFieldsOperationType{"Apply", "Update"}[r.IntN(2)],
			APIVersion: versions[r.IntN(len(versions))], Time: &at, FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(sets[r.IntN(len(sets))]),
			Subresource: []string{"", "scale"}[r.IntN(2)],
		})
	}
	return entries
}
