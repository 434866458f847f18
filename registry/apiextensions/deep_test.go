package apiextensions_test

import (
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	"github.com/keelson-dev/keelson/registry/apiextensions"
)

// TestBudgetOfDeep: a list without a bound is named however deep it is in objects, of which there is one each.
func TestBudgetOfDeep(t *testing.T) {
	const depth = 30
	text := strings.Repeat("{type: object, properties: {a: ", depth) +
		`{type: array, items: {type: object, properties: {l: {type: array, maxItems: 100, items: {type: integer}}},
			x-kubernetes-validations: [{rule: "self.l.all(x, self.l.all(y, x == y))"}]}}` + strings.Repeat("}}", depth)
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := yaml.UnmarshalStrict([]byte(`{metadata: {name: widgets.example.com}, spec: {group: example.com, scope: Cluster, names: {plural: widgets, kind: Widget},
		versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: `+text+`}}]}}`), crd); err != nil {
		t.Fatal(err)
	}
	rules := apiextensions.Kinds()[0].Rules
	rules.Default(crd)
	rules.PrepareCreate(t.Context(), crd)
	want := "; these have no bound: " + strings.TrimSuffix(strings.Repeat("a.", depth), ".") + " (maxItems)"
	refused := 0
	for _, e := range rules.Validate(crd) {
		if strings.HasSuffix(e.Field, ".rule") {
			if refused++; !strings.HasSuffix(e.Detail, want) {
				t.Errorf("refused with %s", e.Detail)
			}
		}
	}
	if refused == 0 {
		t.Error("the rule is not too expensive")
	}
}

// TestDefaultsThatStay: a definition whose schema cannot be interpreted, as old servers accepted, stays as it is; and so
// does what is called metadata in the objects themselves.
func TestDefaultsThatStay(t *testing.T) {
	embedded := apiextensionsv1.JSONSchemaProps{
		Type: "object", XEmbeddedResource: true, Default: &apiextensionsv1.JSON{Raw: []byte(`{"kind":"A","metadata":{"extra":1,"name":"x"}}`)},
	}
	around := apiextensionsv1.JSONSchemaProps{
		Type: "object", Default: &apiextensionsv1.JSON{Raw: []byte(`{"p":{"kind":"A","metadata":{"extra":1,"name":"x"}}}`)},
		Properties: map[string]apiextensionsv1.JSONSchemaProps{"p": {Type: "object", XEmbeddedResource: true}},
	}
	for name, schema := range map[string]apiextensionsv1.JSONSchemaProps{
		"not structural": {
			Type: "object", PatternProperties: map[string]apiextensionsv1.JSONSchemaProps{"x": {Type: "string"}},
			Properties: map[string]apiextensionsv1.JSONSchemaProps{"p": embedded},
		},
		"in metadata": {Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{"metadata": around}},
	} {
		crd := &apiextensionsv1.CustomResourceDefinition{Spec: apiextensionsv1.CustomResourceDefinitionSpec{Versions: []apiextensionsv1.CustomResourceDefinitionVersion{
			{Name: "v1", Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &schema}},
		}}}
		want := jsonText(t, crd)
		apiextensions.Kinds()[0].Rules.Store(crd)
		if got := jsonText(t, crd); got != want {
			t.Errorf("%s: stored as %s, want %s", name, got, want)
		}
	}
}
