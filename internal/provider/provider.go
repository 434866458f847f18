// Package provider makes CustomResourceDefinitions in the shape of a Crossplane provider's, for measurements: those of
// crossplane-contrib/provider-aws, of which there are 200, have 22 kB of JSON in the mean.
package provider

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Version is the version of the kinds.
const Version = "v1beta1"

// Object returns a valid object of the kind of definition number n: 2 kB of JSON.
func Object(n int, name string) *unstructured.Unstructured {
	parameters := map[string]any{"tags": map[string]any{"team": "storage"}}
	for i := range 12 {
		parameters["field"+strconv.Itoa(i)] = fmt.Sprintf("a value of some length, number %d", i)
	}
	block := map[string]any{"field0": "x", "field1": string(bytes.Repeat([]byte("y"), 140))}
	parameters["blocks"] = []any{block, block, block, block, block, block, block, block}
	u := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"forProvider": parameters}}}
	u.SetAPIVersion("example.com/" + Version)
	u.SetKind("Provided" + strconv.Itoa(n))
	u.SetName(name)
	return u.DeepCopy()
}

// Definition returns the definition number n, with upstream's defaults: 23 kB of JSON. Its kind is ProvidedN in the group
// example.com, whose objects are cluster-scoped.
func Definition(n int) *apiextensionsv1.CustomResourceDefinition {
	const about = "A description of a field, of the length that generated ones have: it says what the field is for, and when to use it."
	text := apiextensionsv1.JSONSchemaProps{Type: "string", Description: about}
	record := func(properties map[string]apiextensionsv1.JSONSchemaProps, required ...string) apiextensionsv1.JSONSchemaProps {
		return apiextensionsv1.JSONSchemaProps{Type: "object", Description: about, Properties: properties, Required: required}
	}
	list := func(of apiextensionsv1.JSONSchemaProps) apiextensionsv1.JSONSchemaProps {
		return apiextensionsv1.JSONSchemaProps{Type: "array", Items: &apiextensionsv1.JSONSchemaPropsOrArray{Schema: &of}}
	}
	fields := func() map[string]apiextensionsv1.JSONSchemaProps {
		out := map[string]apiextensionsv1.JSONSchemaProps{"tags": {
			Type: "object", AdditionalProperties: &apiextensionsv1.JSONSchemaPropsOrBool{Allows: true, Schema: &text},
		}}
		for i := range 12 {
			out["field"+strconv.Itoa(i)] = text
		}
		return out
	}
	parameters := func() apiextensionsv1.JSONSchemaProps {
		out := fields()
		out["rules"], out["blocks"] = list(record(fields(), "field0")), list(record(fields(), "field0"))
		return record(out)
	}
	value := func(text string) apiextensionsv1.JSON { return apiextensionsv1.JSON{Raw: []byte(text)} }
	orphan, remove := value(`"Orphan"`), value(`"Delete"`)
	spec := record(map[string]apiextensionsv1.JSONSchemaProps{
		"forProvider": parameters(), "initProvider": parameters(),
		"deletionPolicy": {Type: "string", Default: &remove, Enum: []apiextensionsv1.JSON{orphan, remove}},
	})
	spec.XValidations = apiextensionsv1.ValidationRules{{Rule: "has(self.forProvider)", Message: "spec.forProvider is required"}}
	conditions, keyed := list(record(map[string]apiextensionsv1.JSONSchemaProps{"type": text, "status": text, "reason": text, "message": text}, "type")), "map"
	conditions.XListType, conditions.XListMapKeys = &keyed, []string{"type"}
	whole := record(map[string]apiextensionsv1.JSONSchemaProps{
		"apiVersion": {Type: "string"}, "kind": {Type: "string"}, "metadata": {Type: "object"}, "spec": spec,
		"status": record(map[string]apiextensionsv1.JSONSchemaProps{"atProvider": parameters(), "conditions": conditions}),
	}, "spec")
	kind := "Provided" + strconv.Itoa(n)
	singular := strings.ToLower(kind)
	return &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: singular + "s.example.com"},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: "example.com", Scope: apiextensionsv1.ClusterScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{
				Plural: singular + "s", Singular: singular, Kind: kind, ListKind: kind + "List", Categories: []string{"managed"},
			},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: Version, Served: true, Storage: true, Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &whole},
				Subresources: &apiextensionsv1.CustomResourceSubresources{Status: &apiextensionsv1.CustomResourceSubresourceStatus{}},
				AdditionalPrinterColumns: []apiextensionsv1.CustomResourceColumnDefinition{
					{Name: "Ready", Type: "string", JSONPath: ".status.conditions[?(@.type=='Ready')].status"},
					{Name: "Age", Type: "date", JSONPath: ".metadata.creationTimestamp"},
				},
			}},
		},
	}
}
