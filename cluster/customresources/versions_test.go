package customresources_test

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/cluster"
)

// Who owns fields in one version loses and keeps them by requests in another as at upstream's server: objects of versions are
// compared as they were sent, and a write of the object resets the status in its own version alone.
func TestOwnersInVersions(t *testing.T) {
	c := start(t, cluster.Options{})
	a, ctx := clients(t, c.Config()), t.Context()
	a.define(backup(func(crd *definition) {
		second := *crd.Spec.Versions[0].DeepCopy()
		second.Name, second.Storage = "v2", false
		crd.Spec.Versions = append(crd.Spec.Versions, second)
	}))
	a.established("backups.example.com")
	v2 := a.any.Resource(schema.GroupVersionResource{Group: "example.com", Version: "v2", Resource: "backups"}).Namespace("default")
	a.create(a.backups("default"), object("some"))
	if _, err := a.backups("default").Patch(ctx, "some", types.MergePatchType, []byte(`{"status":{"copies":2}}`), metav1.PatchOptions{}, "status"); err != nil {
		t.Fatal(err)
	}
	owners := func(u *unstructured.Unstructured) string {
		var all []string
		for _, e := range u.GetManagedFields() {
			all = append(all, e.APIVersion+e.Subresource+e.FieldsV1.GetRawString())
		}
		return strings.Join(all, " ")
	}
	const status = `example.com/v1status{"f:status":{".":{},"f:copies":{}}}`
	for name, tt := range map[string]struct {
		in    string
		owned bool
	}{"its own version": {"v1", true}, "another version": {"v2", false}} {
		t.Run(name, func(t *testing.T) {
			all := a.backups("default")
			if tt.in == "v2" {
				all = v2
			}
			u, err := all.Get(ctx, "some", metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			delete(u.Object, "status")
			u, err = all.Update(ctx, u, metav1.UpdateOptions{DryRun: []string{"All"}})
			if err != nil || strings.Contains(owners(u), status) != tt.owned {
				t.Errorf("%v, %s", err, owners(u))
			}
		})
	}
	t.Run("null", func(t *testing.T) {
		second := object("second")
		second.SetAPIVersion("example.com/v2")
		a.create(v2, second)
		config := []byte(`{"apiVersion":"example.com/v1","kind":"Backup","metadata":{"name":"second"},"spec":{"target":null}}`)
		_, err := a.backups("default").Patch(ctx, "second", types.ApplyPatchType, config, metav1.PatchOptions{FieldManager: "me"})
		if err == nil || !strings.Contains(err.Error(), "Apply failed with 1 conflict") || !strings.Contains(err.Error(), "using example.com/v2: .spec.target") {
			t.Errorf("%v", err)
		}
	})
}
