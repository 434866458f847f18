package custom_test

import (
	"encoding/json"
	"reflect"
	"runtime"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/keelson-dev/keelson/registry/custom"
)

// at returns what is at a path of members.
func at(v any, path ...string) any {
	for _, name := range path {
		m, _ := v.(map[string]any)
		v = m[name]
	}
	return v
}

func decoded(t *testing.T, text string) any {
	t.Helper()
	var v any
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatal(err)
	}
	return v
}

// TestSchema: the schema is that of the definition, with what all objects have. The module conformance/openapi compares
// whole schemas with upstream's.
func TestSchema(t *testing.T) {
	r, err := custom.New(parse(t, `
- {name: v1, served: true, storage: true, selectableFields: [{jsonPath: .spec.size}],
  schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {
    size: {type: integer, default: 1}, port: {x-kubernetes-int-or-string: true}, list: {type: array, x-kubernetes-list-type: set, items: {type: string}},
    template: {type: object, x-kubernetes-embedded-resource: true, required: [kind], properties: {kind: {type: string}}}}}}}}}
- {name: v2, served: true, storage: false, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}`), custom.Options{})
	if err != nil {
		t.Fatal(err)
	}
	k := r.Kind()
	s := k.Schema()
	properties := func(path ...string) []string { return append([]string{"properties", "spec", "properties"}, path...) }
	for _, c := range []struct {
		path []string
		want string
	}{
		{[]string{"type"}, `"object"`},
		{[]string{"x-kubernetes-group-version-kind"}, `[{"group": "example.com", "version": "v1", "kind": "Widget"}]`},
		{[]string{"x-kubernetes-selectable-fields"}, `[{"fieldPath": "spec.size"}]`},
		{[]string{"properties", "kind", "type"}, `"string"`},
		{[]string{"properties", "metadata", "allOf"}, `[{"$ref": "#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"}]`},
		{properties("port"), `{"x-kubernetes-int-or-string": true, "anyOf": [{"type": "integer"}, {"type": "string"}]}`},
		{properties("list"), `{"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}}`},
		{properties("template", "required"), `["kind", "apiVersion"]`},
		{properties("template", "properties", "metadata", "allOf"), `[{"$ref": "#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"}]`},
	} {
		if got, want := at(s, c.path...), decoded(t, c.want); !reflect.DeepEqual(got, want) {
			t.Errorf("%s is %v, want %v", strings.Join(c.path, "."), got, want)
		}
	}
	if got := at(s, properties("size", "default")...); got != int64(1) {
		t.Errorf("the default is %v, a %T", got, got)
	}
	if got := at(k.Also[0].Schema(), "x-kubernetes-group-version-kind"); !reflect.DeepEqual(got, decoded(t, `[{"group": "example.com", "version": "v2", "kind": "Widget"}]`)) {
		t.Errorf("the other version is of kind %v", got)
	}
	if at(k.Also[0].Schema(), "x-kubernetes-preserve-unknown-fields") != true {
		t.Error("the other version does not preserve unknown fields")
	}
	of := r.Storage()
	at(of.Schema(), "properties").(map[string]any)["spec"] = nil
	if at(of.Schema(), properties("size")...) == nil || at(k.Schema(), properties("size")...) == nil {
		t.Error("a schema is shared with those before")
	}
	want := jsonOf(t, k.Schema())
	if runtime.GC(); jsonOf(t, k.Schema()) != want {
		t.Error("a schema that was collected is made anew as another")
	}
}

// TestSchemaNotStructural: schemas by which fields could not be pruned, which servers once accepted, are not published.
func TestSchemaNotStructural(t *testing.T) {
	for name, spec := range map[string]apiextensionsv1.JSONSchemaProps{
		"no type":                         {Properties: map[string]apiextensionsv1.JSONSchemaProps{"a": {Type: "string"}}},
		"unknown type":                    {Type: "thing"},
		"unknown, with a known one below": {Type: "thing", Properties: map[string]apiextensionsv1.JSONSchemaProps{"a": {Type: "string"}}},
		"type in anyOf":                   {Type: "object", AnyOf: []apiextensionsv1.JSONSchemaProps{{Type: "object"}}},
	} {
		crd := parse(t, `- {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object}}}}}`)
		crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"] = spec
		r, err := custom.New(crd, custom.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if s := r.Storage().Schema(); s["type"] != "object" || s["properties"] != nil || s["x-kubernetes-group-version-kind"] == nil {
			t.Errorf("%s: the schema is %v", name, s)
		}
	}
}

// TestSchemaPreserving: a definition that preserves unknown fields as a whole says so in the schema.
func TestSchemaPreserving(t *testing.T) {
	crd := parse(t, `- {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object}}}}}`)
	for _, preserve := range []bool{false, true} {
		crd.Spec.PreserveUnknownFields = preserve
		r, err := custom.New(crd, custom.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if s := r.Storage().Schema(); (s["x-kubernetes-preserve-unknown-fields"] == true) != preserve || at(s, "properties", "spec") == nil {
			t.Errorf("preserving %t: %v", preserve, s)
		}
	}
}
