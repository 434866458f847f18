package customresources_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/retry"

	"github.com/keelson-dev/keelson/cluster"
	"github.com/keelson-dev/keelson/cluster/customresources"
	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/registry/custom/review"
)

type definition = apiextensionsv1.CustomResourceDefinition

// definitions is the resource of definitions.
var definitions = apiextensionsv1.SchemeGroupVersion.WithResource("customresourcedefinitions")

// backups is the resource that the definition backup defines.
var backups = schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "backups"}

// backup returns the definition of backups.example.com, changed.
func backup(change ...func(crd *definition)) *definition {
	one, nine := &apiextensionsv1.JSON{Raw: []byte("1")}, float64(9)
	crd := &definition{
		TypeMeta:   metav1.TypeMeta{APIVersion: "apiextensions.k8s.io/v1", Kind: "CustomResourceDefinition"},
		ObjectMeta: metav1.ObjectMeta{Name: "backups.example.com"},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: "example.com", Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{
				Plural: "backups", Singular: "backup", Kind: "Backup", ListKind: "BackupList", ShortNames: []string{"bk"}, Categories: []string{"all"},
			},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: "v1", Served: true, Storage: true,
				Subresources: &apiextensionsv1.CustomResourceSubresources{Status: &apiextensionsv1.CustomResourceSubresourceStatus{}},
				Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
					Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{
						"spec": {Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{
							"copies": {Type: "integer", Default: one, Maximum: &nine}, "target": {Type: "string"},
						}},
						"status": {Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{"copies": {Type: "integer"}}},
					},
				}},
			}},
		},
	}
	for _, c := range change {
		c(crd)
	}
	return crd
}

// called returns a definition with other names.
func called(kind string, short ...string) *definition {
	singular := strings.ToLower(kind)
	return backup(func(crd *definition) {
		crd.Name = singular + "s.example.com"
		crd.Spec.Names = apiextensionsv1.CustomResourceDefinitionNames{
			Plural: singular + "s", Singular: singular, Kind: kind, ListKind: kind + "List", ShortNames: short,
		}
	})
}

// object returns a backup.
func object(name string, change ...func(*unstructured.Unstructured)) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "example.com/v1", "kind": "Backup", "metadata": map[string]any{"name": name}, "spec": map[string]any{"target": "disk"},
	}}
	for _, c := range change {
		c(u)
	}
	return u
}

// start runs a cluster with the extension until the test ends.
func start(t testing.TB, o cluster.Options) *cluster.Cluster {
	t.Helper()
	if o.Extensions == nil {
		o.Extensions = []cluster.Extension{customresources.Extension(customresources.Options{Webhooks: none})}
	}
	o.OnMutation = func(err error) { t.Errorf("a shared object was changed: %v", err) }
	c, err := cluster.Start(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return c
}

// api are the clients of a test.
type api struct {
	t   testing.TB
	any dynamic.Interface
	cs  kubernetes.Interface
}

func clients(t testing.TB, config *rest.Config) *api {
	t.Helper()
	dyn, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	cs, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return &api{t, dyn, cs}
}

func (a *api) backups(namespace string) dynamic.ResourceInterface {
	return a.any.Resource(backups).Namespace(namespace)
}

// define posts a definition.
func (a *api) define(crd *definition) *definition {
	a.t.Helper()
	return a.typed(a.any.Resource(definitions).Create(context.Background(), untyped(a.t, crd), metav1.CreateOptions{}))
}

// definition returns a definition.
func (a *api) definition(name string) *definition {
	a.t.Helper()
	return a.typed(a.any.Resource(definitions).Get(context.Background(), name, metav1.GetOptions{}))
}

// change updates a definition.
func (a *api) change(name string, change func(crd *definition)) {
	a.t.Helper()
	if err := retry.RetryOnConflict(retry.DefaultRetry, func() error { // the controller changes the status
		crd := a.definition(name)
		change(crd)
		_, err := a.any.Resource(definitions).Update(context.Background(), untyped(a.t, crd), metav1.UpdateOptions{})
		return err
	}); err != nil {
		a.t.Fatal(err)
	}
}

func (a *api) typed(u *unstructured.Unstructured, err error) *definition {
	a.t.Helper()
	crd := &definition{}
	if err == nil {
		err = runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, crd)
	}
	if err != nil {
		a.t.Fatal(err)
	}
	return crd
}

func untyped(t testing.TB, obj runtime.Object) *unstructured.Unstructured {
	t.Helper()
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err != nil {
		t.Fatal(err)
	}
	return &unstructured.Unstructured{Object: content}
}

// until watches an object from its first state and returns the state for which done returns true; nil is that it is gone.
func (a *api) until(r dynamic.ResourceInterface, name string, done func(*unstructured.Unstructured) bool) {
	a.t.Helper()
	w, err := r.Watch(context.Background(), metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector("metadata.name", name).String()})
	if err != nil {
		a.t.Fatal(err)
	}
	defer w.Stop()
	if u, err := r.Get(context.Background(), name, metav1.GetOptions{}); err != nil && done(nil) || err == nil && done(u) {
		return
	}
	for e := range w.ResultChan() {
		u, ok := e.Object.(*unstructured.Unstructured)
		if !ok {
			a.t.Fatalf("watching %s: %v", name, e.Object)
		}
		if e.Type == watch.Deleted {
			u = nil
		}
		if done(u) {
			return
		}
	}
	a.t.Fatalf("the watch of %s ended", name)
}

// established waits until a definition is.
func (a *api) established(name string) {
	a.t.Helper()
	a.condition(name, "Established True InitialNamesAccepted: the initial names have been accepted")
}

// condition waits until a definition has a condition.
func (a *api) condition(name, want string) {
	a.t.Helper()
	a.until(a.any.Resource(definitions), name, func(u *unstructured.Unstructured) bool {
		return u != nil && slices.Contains(conditions(a.typed(u, nil)), want)
	})
}

// gone waits until an object is.
func (a *api) gone(r dynamic.ResourceInterface, name string) {
	a.t.Helper()
	a.until(r, name, func(u *unstructured.Unstructured) bool { return u == nil })
}

// conditions returns those of a definition as text.
func conditions(crd *definition) []string {
	var all []string
	for _, c := range crd.Status.Conditions {
		all = append(all, fmt.Sprintf("%s %s %s: %s", c.Type, c.Status, c.Reason, c.Message))
	}
	return all
}

// eventually waits until a check passes.
func eventually(t testing.TB, check func() error) {
	t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for {
		err := check()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func (a *api) delete(r dynamic.ResourceInterface, name string) {
	a.t.Helper()
	if err := r.Delete(context.Background(), name, metav1.DeleteOptions{}); err != nil {
		a.t.Fatal(err)
	}
}

func (a *api) create(r dynamic.ResourceInterface, u *unstructured.Unstructured) *unstructured.Unstructured {
	a.t.Helper()
	made, err := r.Create(context.Background(), u, metav1.CreateOptions{})
	if err != nil {
		a.t.Fatal(err)
	}
	return made
}

// none calls no webhooks.
func none(*registry.Registry) (review.Caller, error) { return nil, nil } //nolint:nilnil // as Options.Webhooks allows

// servable undoes unservable.
func servable(crd *definition) {
	crd.Spec.Conversion = &apiextensionsv1.CustomResourceConversion{Strategy: apiextensionsv1.NoneConverter}
}

// unservable leaves conversion to a webhook; there is no converter.
func unservable(crd *definition) {
	if second := crd.Spec.Versions[0]; len(crd.Spec.Versions) == 1 {
		second.Name, second.Storage = "v2", false
		crd.Spec.Versions = append(crd.Spec.Versions, second)
	}
	url := "https://example.com"
	crd.Spec.Conversion = &apiextensionsv1.CustomResourceConversion{Strategy: apiextensionsv1.WebhookConverter, Webhook: &apiextensionsv1.WebhookConversion{
		ClientConfig: &apiextensionsv1.WebhookClientConfig{URL: &url}, ConversionReviewVersions: []string{"v1"},
	}}
}
