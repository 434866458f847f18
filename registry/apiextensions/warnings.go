package apiextensions

import (
	"context"
	"fmt"
	"slices"

	upstream "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation"
	schemavalidation "k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apiserver/pkg/cel/environment"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/keelson-dev/keelson/registry"
)

// warn tells of what a schema declares without effect, unless the old object did, too. It refuses nothing: as a
// guard, it runs once the definition has been found valid.
func warn(ctx context.Context, crd, old *apiextensionsv1.CustomResourceDefinition) error {
	formats, sets := ineffective(crd)
	var hadFormats, hadSets []string
	if old != nil {
		hadFormats, hadSets = ineffective(old)
	}
	for _, text := range slices.Concat(missing(formats, hadFormats), missing(sets, hadSets)) {
		registry.Warn(ctx, text)
	}
	return nil
}

// ineffective returns a warning for each unknown format, and one for each type of items that a set cannot have; both
// are sorted.
func ineffective(crd *apiextensionsv1.CustomResourceDefinition) (formats, sets []string) {
	obj, _ := internal(crd) // what is malformed, validation refuses
	version := environment.DefaultCompatibilityVersion()
	visit := func(s *upstream.JSONSchemaProps) bool {
		if s.Format != "" {
			for _, f := range schemavalidation.GetUnrecognizedFormats(
				&spec.Schema{SchemaProps: spec.SchemaProps{Format: s.Format, Type: []string{s.Type}}}, version) {
				formats = append(formats, fmt.Sprintf("unrecognized format %q", f))
			}
		}
		if t := itemsOfSet(s); t == "object" || t == "array" {
			sets = append(sets, fmt.Sprintf(
				"x-kubernetes-list-type: set for items of type %q is not supported by server-side apply or CEL validation rules", t))
		}
		return false
	}
	if v := obj.Spec.Validation; v != nil {
		validation.SchemaHas(v.OpenAPIV3Schema, visit)
	}
	for _, v := range obj.Spec.Versions {
		if v.Schema != nil {
			validation.SchemaHas(v.Schema.OpenAPIV3Schema, visit)
		}
	}
	slices.Sort(formats)
	slices.Sort(sets)
	return slices.Compact(formats), slices.Compact(sets)
}

// itemsOfSet returns the type of the items if a schema is that of a set, or "".
func itemsOfSet(s *upstream.JSONSchemaProps) string {
	if s.XListType == nil || *s.XListType != "set" || s.Items == nil || s.Items.Schema == nil {
		return ""
	}
	return s.Items.Schema.Type
}

// missing returns the texts that are not among had.
func missing(texts, had []string) []string {
	return slices.DeleteFunc(texts, func(t string) bool { return slices.Contains(had, t) })
}
