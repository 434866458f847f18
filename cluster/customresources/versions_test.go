package customresources_test

import (
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/cluster"
	"github.com/keelson-dev/keelson/cluster/customresources"
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

// TestDefaultsOfTheStoredVersion: what was written in another version has the defaults of the stored one, at once, and an update
// in that version that changes nothing changes nothing.
func TestDefaultsOfTheStoredVersion(t *testing.T) {
	server := httptest.NewTLSServer(&converter{})
	defer server.Close()
	converted := converting(server)
	converted.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"].Properties["target"] = apiextensionsv1.JSONSchemaProps{
		Type: "string", Default: &apiextensionsv1.JSON{Raw: []byte(`"disk"`)},
	}
	for name, test := range map[string]struct {
		crd                  *definition
		spec                 map[string]any
		own, stored, changed string
	}{
		"without a webhook": {backup(func(crd *definition) {
			second := crd.Spec.Versions[0]
			second.Name, second.Storage, second.Schema = "v2", false, second.Schema.DeepCopy()
			delete(second.Schema.OpenAPIV3Schema.Properties["spec"].Properties, "copies")
			crd.Spec.Versions = append(crd.Spec.Versions, second)
		}), map[string]any{"target": "disk"}, "map[target:disk]", "map[copies:1 target:disk]", "map[copies:1 target:tape]"},
		"converted by a webhook": {converted, map[string]any{}, "map[count:1]", "map[copies:1 target:disk]", "map[copies:1 target:disk]"},
	} {
		t.Run(name, func(t *testing.T) {
			c := start(t, cluster.Options{Extensions: []cluster.Extension{customresources.Extension(customresources.Options{})}})
			a := clients(t, c.Config())
			a.define(test.crd)
			a.established("backups.example.com")
			in := a.any.Resource(schema.GroupVersionResource{Group: "example.com", Version: "v2", Resource: "backups"}).Namespace("default")
			expect := func(what, spec string, generation int64, u *unstructured.Unstructured, err error) {
				t.Helper()
				if err != nil || fmt.Sprint(u.Object["spec"]) != spec || u.GetGeneration() != generation {
					t.Fatalf("%s: %v, %v, want %s, generation %d", what, u, err, spec, generation)
				}
			}
			u := object("some")
			u.Object["spec"] = test.spec
			u.SetAPIVersion("example.com/v2")
			made, err := in.Create(t.Context(), u, metav1.CreateOptions{})
			expect("create", test.own, 1, made, err)
			got, err := a.backups("default").Get(t.Context(), "some", metav1.GetOptions{})
			expect("in the stored version", test.stored, 1, got, err)
			same, err := in.Update(t.Context(), made, metav1.UpdateOptions{})
			expect("an update without a change", test.own, 1, same, err)
			if same.GetResourceVersion() != made.GetResourceVersion() {
				t.Error("an update without a change was stored")
			}
			changed, err := in.Patch(t.Context(), "some", types.MergePatchType, []byte(`{"spec":{"target":"tape"}}`), metav1.PatchOptions{})
			if err != nil {
				t.Fatal(err)
			}
			got, err = a.backups("default").Get(t.Context(), "some", metav1.GetOptions{})
			expect("changed", test.changed, changed.GetGeneration(), got, err)
		})
	}
}
