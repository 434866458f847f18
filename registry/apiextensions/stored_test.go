package apiextensions_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/registry/apiextensions"
	"github.com/keelson-dev/keelson/storage/memory"
)

// serve runs a registry with the kind until the test ends.
func serve(t *testing.T, store *memory.Store) *registry.Resource {
	t.Helper()
	r, err := registry.New(store, apiextensions.Kinds(), registry.Options{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	if err := r.WaitSynced(ctx); err != nil {
		t.Fatal(err)
	}
	resource, _ := r.Resource(schema.GroupResource{Group: "apiextensions.k8s.io", Resource: "customresourcedefinitions"})
	return resource
}

// TestDelete: the first delete adds the finalizer, which holds the definition until someone removes it.
func TestDelete(t *testing.T) {
	resource := serve(t, memory.New(memory.Options{}))
	crd := widgets()
	crd.ResourceVersion = ""
	kind(t).Rules.Default(crd)
	item, err := resource.Create(t.Context(), crd, registry.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if created := item.Object.(*definition); len(created.Finalizers) != 0 {
		t.Errorf("created with finalizers %q", created.Finalizers)
	}
	item, gone, err := resource.Delete(t.Context(), "", crd.Name, registry.DeleteOptions{})
	if err != nil || gone {
		t.Fatalf("gone %t, %v", gone, err)
	}
	deleted := item.Object.(*definition)
	if deleted.DeletionTimestamp == nil || deleted.DeletionGracePeriodSeconds != nil || deleted.Generation != 1 ||
		!slices.Equal(deleted.Finalizers, []string{"customresourcecleanup.apiextensions.k8s.io"}) {
		t.Errorf("deleted: %+v", deleted.ObjectMeta)
	}
	c := deleted.Status.Conditions
	if len(c) != 1 || c[0].Type != apiextensionsv1.Terminating || c[0].Status != apiextensionsv1.ConditionTrue || c[0].Reason != "InstanceDeletionPending" ||
		c[0].Message != "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon" || c[0].LastTransitionTime.IsZero() {
		t.Errorf("conditions %+v", c)
	}
	item, gone, err = resource.Delete(t.Context(), "", crd.Name, registry.DeleteOptions{})
	if err != nil || gone {
		t.Fatalf("deleted again: gone %t, %v", gone, err)
	}
	if again := item.Object.(*definition); again.DeletionGracePeriodSeconds == nil || *again.DeletionGracePeriodSeconds != 0 || len(again.Finalizers) != 1 {
		t.Errorf("deleted again: %+v", again.ObjectMeta)
	}
	_, _, err = resource.Update(t.Context(), "", crd.Name, func(_ context.Context, current registry.Object) (registry.Object, error) {
		next := current.DeepCopyObject().(registry.Object)
		next.SetFinalizers(nil)
		return next, nil
	}, registry.UpdateOptions{View: "status"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := resource.Get(t.Context(), "", crd.Name, ""); !errors.Is(err, registry.ErrNotFound) {
		t.Errorf("without finalizers: %v", err)
	}
}

// TestShare: states of a definition share the schemas until these change.
func TestShare(t *testing.T) {
	resource := serve(t, memory.New(memory.Options{}))
	crd := widgets()
	crd.ResourceVersion = ""
	kind(t).Rules.Default(crd)
	item, err := resource.Create(t.Context(), crd, registry.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	created := item.Object.(*definition)
	update := func(view string, change func(*definition)) *definition {
		t.Helper()
		item, _, err := resource.Update(t.Context(), "", crd.Name, func(_ context.Context, current registry.Object) (registry.Object, error) {
			next := current.DeepCopyObject().(*definition)
			change(next)
			return next, nil
		}, registry.UpdateOptions{View: view})
		if err != nil {
			t.Fatal(err)
		}
		return item.Object.(*definition)
	}
	schema := func(crd *definition) *apiextensionsv1.JSONSchemaProps {
		return crd.Spec.Versions[0].Schema.OpenAPIV3Schema
	}
	if next := update("status", func(crd *definition) { crd.Status.ObservedGeneration = 1 }); schema(next) != schema(created) {
		t.Error("a new status takes a new schema")
	}
	if next := update("", func(crd *definition) { crd.Labels = map[string]string{"a": "b"} }); schema(next) != schema(created) {
		t.Error("a new label takes a new schema")
	}
	next := update("", func(crd *definition) { schema(crd).Description = "changed" })
	if schema(next) == schema(created) || schema(next).Description != "changed" || schema(created).Description == "changed" {
		t.Errorf("the schema has not changed: %q, before %q", schema(next).Description, schema(created).Description)
	}
}

// TestV1beta1 reads a definition as upstream's servers store it.
func TestV1beta1(t *testing.T) {
	store := memory.New(memory.Options{})
	for name, record := range map[string]string{
		"widgets.example.com": `{"kind":"CustomResourceDefinition","apiVersion":"apiextensions.k8s.io/v1beta1",
			"metadata":{"name":"widgets.example.com","generation":1},"spec":{"group":"example.com","version":"v1","preserveUnknownFields":false,
			"names":{"plural":"widgets","singular":"widget","kind":"Widget","listKind":"WidgetList"},"scope":"Namespaced",
			"validation":{"openAPIV3Schema":{"type":"object"}},"subresources":{"status":{}},
			"additionalPrinterColumns":[{"name":"Size","type":"integer","JSONPath":".spec.size"}],
			"versions":[{"name":"v1","served":true,"storage":true},{"name":"v2","served":true,"storage":false}],
			"conversion":{"strategy":"Webhook","webhookClientConfig":{"url":"https://x.example"},"conversionReviewVersions":["v1"]}},
			"status":{"storedVersions":["v1"]}}`,
		"gadgets.example.com": `{"kind":"CustomResourceDefinition","apiVersion":"apiextensions.k8s.io/v1beta1",
			"metadata":{"name":"gadgets.example.com"},"spec":{"group":"example.com","version":"v1","names":{"plural":"gadgets","kind":"Gadget"}}}`,
	} {
		if _, err := store.Create(t.Context(), registry.Root+"apiextensions.k8s.io/customresourcedefinitions/"+name, []byte(record)); err != nil {
			t.Fatal(err)
		}
	}
	resource := serve(t, store)
	item, err := resource.Get(t.Context(), "", "widgets.example.com", "")
	if err != nil {
		t.Fatal(err)
	}
	spec := item.Object.(*definition).Spec
	if spec.PreserveUnknownFields || len(spec.Versions) != 2 || spec.Conversion.Webhook == nil || *spec.Conversion.Webhook.ClientConfig.URL != "https://x.example" {
		t.Fatalf("read as %+v", spec)
	}
	for _, v := range spec.Versions {
		if v.Schema == nil || v.Subresources == nil || len(v.AdditionalPrinterColumns) != 1 || v.AdditionalPrinterColumns[0].JSONPath != ".spec.size" {
			t.Errorf("version %+v", v)
		}
	}
	item, err = resource.Get(t.Context(), "", "gadgets.example.com", "")
	if err != nil {
		t.Fatal(err)
	}
	old := item.Object.(*definition)
	if !old.Spec.PreserveUnknownFields || old.Spec.Scope != "Namespaced" || len(old.Spec.Versions) != 1 || old.Spec.Names.ListKind != "GadgetList" || !slices.Equal(old.Status.StoredVersions, []string{"v1"}) {
		t.Errorf("read as %+v", old)
	}
}
