package apiextensions_test

import (
	"encoding/json"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/keelson-dev/keelson/registry/apiextensions"
)

// TestPruneDefaults: a definition is stored without what metadata in its defaults cannot have.
func TestPruneDefaults(t *testing.T) {
	resource := apiextensionsv1.JSONSchemaProps{Type: "object", XEmbeddedResource: true}
	const have, want = `{"kind":"A","metadata":{"creationTimestamp":null,"extra":1,"name":"x"}}`, `{"kind":"A","metadata":{"name":"x"}}`
	with := func(s apiextensionsv1.JSONSchemaProps, value string) apiextensionsv1.JSONSchemaProps {
		s.Default = &apiextensionsv1.JSON{Raw: []byte(value)}
		return s
	}
	object := func(p apiextensionsv1.JSONSchemaProps) apiextensionsv1.JSONSchemaProps {
		return apiextensionsv1.JSONSchemaProps{Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{"p": p}}
	}
	list := apiextensionsv1.JSONSchemaProps{Type: "array", Items: &apiextensionsv1.JSONSchemaPropsOrArray{Schema: &resource}}
	additional := apiextensionsv1.JSONSchemaProps{Type: "object", AdditionalProperties: &apiextensionsv1.JSONSchemaPropsOrBool{Schema: &resource}}
	items := apiextensionsv1.JSONSchemaProps{Type: "array", Items: &apiextensionsv1.JSONSchemaPropsOrArray{Schema: new(with(resource, have))}}
	itemsPruned := apiextensionsv1.JSONSchemaProps{Type: "array", Items: &apiextensionsv1.JSONSchemaPropsOrArray{Schema: new(with(resource, want))}}
	values := apiextensionsv1.JSONSchemaProps{Type: "object", AdditionalProperties: &apiextensionsv1.JSONSchemaPropsOrBool{Schema: new(with(resource, have))}}
	// inMetadata is a schema with a schema of metadata.
	inMetadata := func(of, metadata apiextensionsv1.JSONSchemaProps) apiextensionsv1.JSONSchemaProps {
		of.Properties = map[string]apiextensionsv1.JSONSchemaProps{"metadata": metadata}
		return of
	}
	around, aroundPruned := with(object(resource), `{"p":`+have+`}`), with(object(resource), `{"p":`+want+`}`)
	anything := object(with(resource, have))
	anything.Properties["any"] = with(apiextensionsv1.JSONSchemaProps{Type: "object", AdditionalProperties: &apiextensionsv1.JSONSchemaPropsOrBool{Allows: true}}, `{}`)
	anythingPruned := object(with(resource, want))
	anythingPruned.Properties["any"] = anything.Properties["any"]
	nothing := with(apiextensionsv1.JSONSchemaProps{Type: "object", AdditionalProperties: &apiextensionsv1.JSONSchemaPropsOrBool{Allows: true}}, `{"a":1}`)
	for name, tt := range map[string]struct {
		have, want apiextensionsv1.JSONSchemaProps
	}{
		"in a resource's metadata":                {inMetadata(resource, around), inMetadata(resource, around)},
		"in what is only called metadata":         {inMetadata(object(resource), around), inMetadata(object(resource), aroundPruned)},
		"of a resource in a resource's metadata":  {inMetadata(resource, object(with(resource, have))), inMetadata(resource, object(with(resource, want)))},
		"beside what may be anything":             {anything, anythingPruned},
		"of what may be anything and no resource": {nothing, nothing},
		"of the resource":                         {with(resource, have), with(resource, want)},
		"around it":                               {with(object(resource), `{"p":`+have+`}`), with(object(resource), `{"p":`+want+`}`)},
		"around a list":                           {with(list, `[`+have+`]`), with(list, `[`+want+`]`)},
		"around a map":                            {with(additional, `{"k":`+have+`}`), with(additional, `{"k":`+want+`}`)},
		"within a list":                           {items, itemsPruned},
		"within a map":                            {values, values},
		"of what is no resource":                  {with(object(resource), have), with(object(resource), have)},
		"of a resource's metadata":                {object(object(resource)), object(object(resource))},
	} {
		t.Run(name, func(t *testing.T) {
			crd := func(s apiextensionsv1.JSONSchemaProps) *apiextensionsv1.CustomResourceDefinition {
				root := object(s)
				return &apiextensionsv1.CustomResourceDefinition{Spec: apiextensionsv1.CustomResourceDefinitionSpec{Versions: []apiextensionsv1.CustomResourceDefinitionVersion{
					{Name: "v1", Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &root}}, {Name: "v2"},
				}}}
			}
			got, before := crd(tt.have), crd(tt.have)
			schema := got.Spec.Versions[0].Schema
			apiextensions.Kinds()[0].Rules.Store(got)
			if text, want := jsonText(t, got), jsonText(t, crd(tt.want)); text != want {
				t.Errorf("%s, want %s", text, want)
			}
			if same := jsonText(t, got) == jsonText(t, before); same != (schema == got.Spec.Versions[0].Schema) {
				t.Error("a definition that has nothing to prune was copied, or another was changed in place")
			}
		})
	}
}

func jsonText(t *testing.T, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
