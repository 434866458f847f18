package custom_test

import (
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/keelson-dev/keelson/registry/custom"
)

// TestDefinitionIsNotChanged: a definition is shared with whoever reads it, so neither publishing nor using its schema changes it.
func TestDefinitionIsNotChanged(t *testing.T) {
	for _, preserve := range []bool{false, true} {
		value := apiextensionsv1.JSON{Raw: []byte(`{"size":1,"gone":2}`)}
		spare := append(make([]apiextensionsv1.JSONSchemaProps, 0, 8), apiextensionsv1.JSONSchemaProps{Required: []string{"size"}})
		crd := &apiextensionsv1.CustomResourceDefinition{}
		crd.Name = "widgets.example.com"
		crd.Spec = apiextensionsv1.CustomResourceDefinitionSpec{
			Group: "example.com", PreserveUnknownFields: preserve,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "widgets", Singular: "widget", Kind: "Widget", ListKind: "WidgetList"},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{Name: "v1", Served: true, Storage: true, Schema: &apiextensionsv1.CustomResourceValidation{
				OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{
					"spec": {Type: "object", Default: &value, AnyOf: spare, AllOf: spare, Properties: map[string]apiextensionsv1.JSONSchemaProps{
						"size": {XIntOrString: true, AllOf: spare}, "at": {Type: "object", XEmbeddedResource: true},
					}},
				}},
			}}},
		}
		before, beyond := crd.DeepCopy(), len(spare[:cap(spare)])
		r, err := custom.New(crd, custom.Options{})
		if err != nil {
			t.Fatal(err)
		}
		v := r.Storage()
		for range 2 {
			v.Schema()
			u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "example.com/v1", "kind": "Widget", "metadata": map[string]any{"name": "a"}}}
			v.Default(u)
			v.Validate(t.Context(), u)
		}
		if !equality.Semantic.DeepEqual(crd, before) {
			t.Errorf("preserve %t: the definition is now\n%v, before\n%v", preserve, crd, before)
		}
		for i, p := range spare[:beyond][1:] {
			if !equality.Semantic.DeepEqual(p, apiextensionsv1.JSONSchemaProps{}) {
				t.Errorf("preserve %t: item %d behind a list was written: %v", preserve, i+1, p)
			}
		}
	}
}
