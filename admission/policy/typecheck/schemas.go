package typecheck

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

// ErrNoSchema means that a kind has no schema.
var ErrNoSchema = errors.New("no schema")

// Document returns the OpenAPI v3 document of a group-version in JSON, as an API server serves it below /openapi/v3: it has
// the kinds that are built in and custom ones. It returns an ErrNoSchema for a group-version that is not served.
type Document func(ctx context.Context, of schema.GroupVersion) ([]byte, error)

const schemasPrefix = "#/components/schemas/"

// schema returns the schema of a kind without references.
func (d Document) schema(ctx context.Context, kind schema.GroupVersionKind) (*spec.Schema, error) {
	data, err := d(ctx, kind.GroupVersion())
	if err != nil {
		return nil, err
	}
	var document struct {
		Components struct {
			Schemas map[string]*spec.Schema `json:"schemas"`
		} `json:"components"`
	}
	if err := json.Unmarshal(data, &document); err != nil {
		return nil, fmt.Errorf("the document of %s: %w", kind.GroupVersion(), err)
	}
	for name, s := range document.Components.Schemas {
		var kinds []schema.GroupVersionKind
		if err := s.Extensions.GetObject("x-kubernetes-group-version-kind", &kinds); err != nil {
			return nil, fmt.Errorf("the kinds of %s: %w", name, err)
		}
		if slices.Contains(kinds, kind) {
			r := resolver{schemas: document.Components.Schemas, within: []string{name}}
			return r.resolve(s)
		}
	}
	return nil, fmt.Errorf("%s: %w", kind, ErrNoSchema)
}

// resolver replaces the references in schemas by what they refer to.
type resolver struct {
	schemas map[string]*spec.Schema
	within  []string // the schemas that are being resolved
}

// resolve returns a copy of a schema without references. A schema inside itself becomes any object.
func (r *resolver) resolve(s *spec.Schema) (*spec.Schema, error) {
	if ref := reference(s); ref != "" {
		name := strings.TrimPrefix(ref, schemasPrefix)
		if slices.Contains(r.within, name) {
			return &spec.Schema{SchemaProps: spec.SchemaProps{Type: []string{"object"}}}, nil
		}
		to, ok := r.schemas[name]
		if !ok {
			return nil, fmt.Errorf("reference to %s: %w", ref, ErrNoSchema)
		}
		r.within = append(r.within, name)
		defer func() { r.within = r.within[:len(r.within)-1] }()
		s = to
	}
	out := *s
	if len(s.Properties) > 0 {
		out.Properties = make(map[string]spec.Schema, len(s.Properties))
		for name, property := range s.Properties {
			resolved, err := r.resolve(&property)
			if err != nil {
				return nil, err
			}
			out.Properties[name] = *resolved
		}
	}
	if s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil {
		resolved, err := r.resolve(s.AdditionalProperties.Schema)
		if err != nil {
			return nil, err
		}
		out.AdditionalProperties = &spec.SchemaOrBool{Allows: s.AdditionalProperties.Allows, Schema: resolved}
	}
	if s.Items != nil && s.Items.Schema != nil {
		resolved, err := r.resolve(s.Items.Schema)
		if err != nil {
			return nil, err
		}
		out.Items = &spec.SchemaOrArray{Schema: resolved}
	}
	return &out, nil
}

// reference returns what a schema refers to; references with a description are inside an allOf.
func reference(s *spec.Schema) string {
	if s.Ref.GetURL() != nil {
		return s.Ref.String()
	}
	for i := range s.AllOf {
		if s.AllOf[i].Ref.GetURL() != nil {
			return s.AllOf[i].Ref.String()
		}
	}
	return ""
}
