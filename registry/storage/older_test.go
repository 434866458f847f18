package storage_test

import (
	"fmt"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-dev/keelson/registry/codec"
	"github.com/keelson-dev/keelson/registry/storage"
)

// TestOlder: what servers stored in the versions before v1 is read as v1.
func TestOlder(t *testing.T) {
	want := map[string][]string{
		"csidrivers": {"v1beta1"}, "csinodes": {"v1beta1"}, "csistoragecapacities": {"v1beta1", "v1alpha1"},
		"storageclasses": {"v1beta1"}, "volumeattachments": {"v1beta1", "v1alpha1"}, "volumeattributesclasses": {"v1beta1", "v1alpha1"},
	}
	for _, k := range storage.Kinds() {
		var versions []string
		for _, older := range k.Older {
			versions = append(versions, older.GroupVersion.Version)
			if older.GroupVersion.Group != "storage.k8s.io" {
				t.Errorf("%s: group %s", k.Plural, older.GroupVersion.Group)
			}
			data := fmt.Sprintf(`{"apiVersion":%q,"kind":%q,"metadata":{"name":"x"}}`, older.GroupVersion, k.Names.Kind)
			old := older.New()
			if _, err := codec.Decode([]byte(data), old); err != nil {
				t.Fatal(err)
			}
			got := older.ToStored(old)
			if fmt.Sprintf("%T", got) != fmt.Sprintf("%T", k.New()) || got.GetName() != "x" {
				t.Errorf("%s: %+v", k.Plural, got)
			}
			if gvk := got.GetObjectKind().GroupVersionKind(); gvk != (schema.GroupVersionKind{}) {
				t.Errorf("%s: of type %v", k.Plural, gvk)
			}
		}
		if !slices.Equal(versions, want[k.Plural]) {
			t.Errorf("%s was stored as %v, want %v", k.Plural, versions, want[k.Plural])
		}
	}
}
