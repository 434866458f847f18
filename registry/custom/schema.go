package custom

import (
	"encoding/json"
	"fmt"
	"slices"
	"weak"

	structural "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utiljson "k8s.io/apimachinery/pkg/util/json"
)

// Schema returns the OpenAPI v3 schema that API servers publish for objects of the version, as decoded JSON: numbers are
// int64 or float64, lists []any. Beside what the definition says it has apiVersion, kind and metadata, also of embedded
// resources, the type under x-kubernetes-group-version-kind and the fields under x-kubernetes-selectable-fields.
// A version whose schema is missing or not structural has a schema that allows any object. A definition from before
// apiextensions.k8s.io/v1 that preserves unknown fields says so at the schema's root, which upstream only does in OpenAPI v2.
//
// Schema makes the schema at each call, in the order of a millisecond, and does not keep it: it takes several times the
// memory of the definition.
func (v *Version) Schema() map[string]any {
	out, err := v.publish()
	if err != nil { // New would have failed; what a schema contains came from JSON
		out = map[string]any{"type": "object"}
	}
	gvk := v.GroupVersionKind()
	out["x-kubernetes-group-version-kind"] = []any{map[string]any{"group": gvk.Group, "version": gvk.Version, "kind": gvk.Kind}}
	if len(v.fields) > 0 {
		var all []any
		for _, name := range v.SelectableFields() {
			all = append(all, map[string]any{"fieldPath": name})
		}
		out["x-kubernetes-selectable-fields"] = all
	}
	return out
}

// sharedSchema returns Schema, which must not be changed then, and keeps it until the next garbage collection: a new kind's is
// asked for several times, and then seldom.
func (v *Version) sharedSchema() map[string]any {
	if last := v.kept.published.Load(); last != nil {
		if made := last.Value(); made != nil {
			return *made
		}
	}
	made := v.Schema()
	last := weak.Make(&made)
	v.kept.published.Store(&last)
	return made
}

// publish returns the schema without what tells the kind.
func (v *Version) publish() (map[string]any, error) {
	s, err := v.interpret() // its own, since most versions are published and never used
	if err != nil {
		return nil, err
	}
	if s == nil || !published(s) {
		return map[string]any{"type": "object"}, nil
	}
	data, err := json.Marshal(s.Unfold().ToKubeOpenAPI())
	if err != nil {
		return nil, fmt.Errorf("encode the schema: %w", err)
	}
	var out map[string]any
	if err := utiljson.Unmarshal(data, &out); err != nil {
		return nil, fmt.Errorf("decode the schema: %w", err)
	}
	docs := metav1.TypeMeta{}.SwaggerDoc()
	identify(out, docs["apiVersion"], docs["kind"])
	embed(out)
	if v.resource.preserve {
		out["x-kubernetes-preserve-unknown-fields"] = true
	}
	return out, nil
}

// published reports whether upstream's servers publish a schema.
func published(s *structural.Structural) bool {
	known := true
	types := structural.Visitor{Structural: func(s *structural.Structural) bool {
		known = known && slices.Contains([]string{"", "array", "boolean", "integer", "number", "object", "string"}, s.Type)
		return false
	}}
	types.Visit(s)
	return known && len(structural.ValidateStructural(nil, s)) == 0
}

// embed completes the embedded resources within a schema.
func embed(s map[string]any) {
	properties, _ := s["properties"].(map[string]any)
	for _, p := range properties {
		if p, ok := p.(map[string]any); ok {
			embed(p)
		}
	}
	for _, name := range []string{"items", "additionalProperties"} {
		if below, ok := s[name].(map[string]any); ok {
			embed(below)
		}
	}
	if s["x-kubernetes-embedded-resource"] != true {
		return
	}
	identify(s, "apiVersion defines the versioned schema of this representation of an object."+conventions+"resources",
		"kind is a string value representing the type of this object. In CamelCase."+conventions+"types-kinds")
	required, _ := s["required"].([]any)
	for _, name := range []string{"kind", "apiVersion"} {
		if !slices.Contains(required, any(name)) {
			required = append(required, name)
		}
	}
	s["required"] = required
}

const conventions = " More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#"

// identify adds what all objects have.
func identify(s map[string]any, apiVersion, kind string) {
	properties, ok := s["properties"].(map[string]any)
	if !ok {
		properties = map[string]any{}
		s["properties"] = properties
	}
	properties["apiVersion"] = map[string]any{"type": "string", "description": apiVersion}
	properties["kind"] = map[string]any{"type": "string", "description": kind}
	properties["metadata"] = map[string]any{
		"description": metav1.PartialObjectMetadata{}.SwaggerDoc()["metadata"],
		"allOf":       []any{map[string]any{"$ref": "#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"}},
	}
}
