package apiserver_test

import (
	"fmt"
	"net/http"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"

	"github.com/keelson-dev/keelson/registry/custom"
)

const backups = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: backups.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: backups, singular: backup, kind: Backup, listKind: BackupList, shortNames: [bk]}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}, scale: {specReplicasPath: .spec.copies, statusReplicasPath: .status.copies}}
    additionalPrinterColumns: [{name: Copies, type: integer, jsonPath: .spec.copies}]
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            properties:
              copies: {type: integer, default: 1, maximum: 9}
              tags: {type: array, x-kubernetes-list-type: set, items: {type: string}}
              target: {type: string}
            x-kubernetes-validations: [{rule: "self.copies != 7", message: "not seven"}]
          status:
            type: object
            properties: {copies: {type: integer}}
  - name: v1beta1
    served: true
    storage: false
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
`

// Objects of a custom kind live like all others.
func TestCustomObjectLife(t *testing.T) {
	reg, config := serveRegistry(t, map[string]http.Handler{})
	definitions, err := custom.Read([]byte(backups))
	if err != nil {
		t.Fatal(err)
	}
	resource, err := custom.New(definitions[0], custom.Options{})
	if err != nil {
		t.Fatal(err)
	}
	kind := resource.Kind()
	if _, err := reg.Install(t.Context(), kind); err != nil {
		t.Fatal(err)
	}
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	gvr := schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "backups"}
	all := client.Resource(gvr).Namespace("default")
	w, err := all.Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	obj := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "example.com/v1", "kind": "Backup", "metadata": map[string]any{"name": "a"},
		"spec": map[string]any{"target": "disk", "unknown": true}, "status": map[string]any{"copies": int64(3)},
	}}
	check := func(what string, got *unstructured.Unstructured, err error, spec, status string) {
		t.Helper()
		if err != nil {
			t.Errorf("%s: %v", what, err)
			return
		}
		if text := fmt.Sprint(got.Object["spec"]); text != spec {
			t.Errorf("%s: spec %s, not %s", what, text, spec)
		}
		if text := fmt.Sprint(got.Object["status"]); text != status {
			t.Errorf("%s: status %s, not %s", what, text, status)
		}
	}
	created, err := all.Create(t.Context(), obj.DeepCopy(), metav1.CreateOptions{})
	check("created", created, err, "map[copies:1 target:disk]", "<nil>") // with defaults, without what the schema does not know
	if created.GetKind() != "Backup" || created.GetAPIVersion() != "example.com/v1" || created.GetUID() == "" || created.GetGeneration() != 1 {
		t.Errorf("created: %v", created)
	}
	if e := <-w.ResultChan(); e.Type != watch.Added || e.Object.(*unstructured.Unstructured).GetKind() != "Backup" {
		t.Errorf("event: %v", e)
	}
	bad := obj.DeepCopy()
	_ = unstructured.SetNestedField(bad.Object, int64(7), "spec", "copies")
	bad.SetName("bad")
	if _, err := all.Create(t.Context(), bad, metav1.CreateOptions{}); !apierrors.IsInvalid(err) || err.Error() != `Backup.example.com "bad" is invalid: spec: Invalid value: not seven` {
		t.Errorf("a rule is broken: %v", err)
	}
	applied, err := all.Apply(t.Context(), "a", &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "example.com/v1", "kind": "Backup", "metadata": map[string]any{"name": "a"}, "spec": map[string]any{"tags": []any{"x"}},
	}}, metav1.ApplyOptions{FieldManager: "m"})
	check("applied", applied, err, "map[copies:1 tags:[x] target:disk]", "<nil>")
	if len(applied.GetManagedFields()) != 2 || applied.GetGeneration() != 2 {
		t.Errorf("applied: %v", applied)
	}
	patched, err := all.Patch(t.Context(), "a", types.MergePatchType, []byte(`{"spec":{"copies":2},"status":{"copies":9}}`), metav1.PatchOptions{})
	check("patched", patched, err, "map[copies:2 tags:[x] target:disk]", "<nil>")
	patched, err = all.Patch(t.Context(), "a", types.MergePatchType, []byte(`{"status":{"copies":2},"spec":{"copies":5}}`), metav1.PatchOptions{}, "status")
	check("the status", patched, err, "map[copies:2 tags:[x] target:disk]", "map[copies:2]")
	scale, err := all.Get(t.Context(), "a", metav1.GetOptions{}, "scale")
	check("the scale", scale, err, "map[replicas:2]", "map[replicas:2]")
	if _, err := all.Patch(t.Context(), "a", types.StrategicMergePatchType, []byte(`{"spec":{"copies":2}}`), metav1.PatchOptions{}); !apierrors.IsUnsupportedMediaType(err) {
		t.Errorf("a strategic merge patch: %v", err)
	}
	gvr.Version = "v1beta1"
	old, err := client.Resource(gvr).Namespace("default").Get(t.Context(), "a", metav1.GetOptions{})
	check("in another version", old, err, "map[copies:2 tags:[x] target:disk]", "map[copies:2]")
	if old.GetAPIVersion() != "example.com/v1beta1" {
		t.Errorf("in another version: %v", old)
	}
	l, err := all.List(t.Context(), metav1.ListOptions{})
	if err != nil || l.GetKind() != "BackupList" || len(l.Items) != 1 || l.Items[0].GetName() != "a" {
		t.Errorf("list: %v, %v", l, err)
	}
	if err := all.Delete(t.Context(), "a", metav1.DeleteOptions{}); err != nil {
		t.Error(err)
	}
	if _, err := all.Get(t.Context(), "a", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("after it was deleted: %v", err)
	}
}
