package custom

import (
	"math/rand/v2"
	"strconv"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// TestCertain: a schema that is certain to be interpreted is interpreted without an error, whatever it is made of; New
// reports the errors of all others.
func TestCertain(t *testing.T) {
	sure, failed := 0, 0
	for seed := range uint64(5000) {
		r := rand.New(rand.NewPCG(seed, 2))
		s := randomSchema(r, 3)
		crd := &apiextensionsv1.CustomResourceDefinition{Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: "example.com", Names: apiextensionsv1.CustomResourceDefinitionNames{Kind: "Widget", Plural: "widgets"},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: "v1", Served: true, Storage: true, Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: s},
			}},
		}}
		kind, err := New(crd, Options{})
		if certain(s) {
			sure++
			if err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			err = kind.versions[0].usable()
			if err != nil {
				t.Fatalf("seed %d: certain, but: %v", seed, err)
			}
		}
		if err != nil {
			failed++
		}
	}
	if sure < 1000 || failed < 1000 {
		t.Errorf("%d schemas were certain, %d failed", sure, failed)
	}
}

// randomSchema returns a schema that is sometimes unusable.
func randomSchema(r *rand.Rand, depth int) *apiextensionsv1.JSONSchemaProps {
	s := &apiextensionsv1.JSONSchemaProps{Type: "object"}
	below := func() *apiextensionsv1.JSONSchemaProps {
		if depth == 0 {
			return &apiextensionsv1.JSONSchemaProps{Type: "string"}
		}
		return randomSchema(r, depth-1)
	}
	yes, no, text := true, false, "x"
	changes := []func(){
		func() { s.ID = "x" },
		func() { s.Schema = "x" },
		func() { s.Ref = &text },
		func() { s.PatternProperties = map[string]apiextensionsv1.JSONSchemaProps{"x": *below()} },
		func() { s.Dependencies = apiextensionsv1.JSONSchemaDependencies{"x": {Property: []string{"y"}}} },
		func() { s.AdditionalItems = &apiextensionsv1.JSONSchemaPropsOrBool{} },
		func() { s.Definitions = apiextensionsv1.JSONSchemaDefinitions{"x": *below()} },
		func() {
			s.Items = &apiextensionsv1.JSONSchemaPropsOrArray{JSONSchemas: []apiextensionsv1.JSONSchemaProps{*below()}}
		},
		func() { s.XPreserveUnknownFields = &no },
		func() { s.Default = &apiextensionsv1.JSON{Raw: []byte(`{`)} },
		func() { s.Enum = []apiextensionsv1.JSON{{Raw: []byte(`1e999`)}} },
		func() { s.Not = below() },
		func() { s.AllOf = []apiextensionsv1.JSONSchemaProps{*below()} },
		func() { s.XPreserveUnknownFields = &yes },
		func() { s.Enum = []apiextensionsv1.JSON{{Raw: []byte(`"a"`)}} },
		func() { s.AdditionalProperties = &apiextensionsv1.JSONSchemaPropsOrBool{Allows: true, Schema: below()} },
		func() { s.Items = &apiextensionsv1.JSONSchemaPropsOrArray{Schema: below()} },
	}
	if r.IntN(4) == 0 {
		changes[r.IntN(len(changes))]()
	}
	if r.IntN(3) == 0 {
		values := []string{`{"metadata":{"labels":{"a":1}}}`, `{"apiVersion":"v1","kind":"Pod","metadata":"no"}`, `{"metadata":{"finalizers":[1]}}`, `{"x":1}`, `"x"`}
		s.Default = &apiextensionsv1.JSON{Raw: []byte(values[r.IntN(len(values))])}
	}
	s.XEmbeddedResource = r.IntN(6) == 0
	s.Properties = map[string]apiextensionsv1.JSONSchemaProps{}
	for i := range r.IntN(3) {
		s.Properties[strconv.Itoa(i)] = *below()
	}
	if r.IntN(6) == 0 {
		s.Properties["metadata"] = apiextensionsv1.JSONSchemaProps{Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{
			"labels": {Type: "object", Default: &apiextensionsv1.JSON{Raw: []byte(`{"a":1}`)}},
		}}
	}
	return s
}
