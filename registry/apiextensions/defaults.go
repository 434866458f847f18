package apiextensions

import (
	upstream "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structural "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/objectmeta"
	"k8s.io/apimachinery/pkg/api/equality"
)

// pruneDefaults drops unknown metadata from the defaults of embedded resources, as upstream does while it validates a
// definition.
func pruneDefaults(crd *apiextensionsv1.CustomResourceDefinition) {
	for i := range crd.Spec.Versions {
		v := &crd.Spec.Versions[i]
		if v.Schema == nil || !embedsDefaults(v.Schema.OpenAPIV3Schema, false) {
			continue
		}
		parsed := &upstream.CustomResourceValidation{}
		if apiextensionsv1.Convert_v1_CustomResourceValidation_To_apiextensions_CustomResourceValidation(v.Schema, parsed, nil) != nil {
			continue
		}
		s, err := structural.NewStructural(parsed.OpenAPIV3Schema)
		if err != nil {
			continue
		}
		pruneMetadata(s, true) // of the defaults that are parsed's, too
		pruned := &apiextensionsv1.CustomResourceValidation{}
		err = apiextensionsv1.Convert_apiextensions_CustomResourceValidation_To_v1_CustomResourceValidation(parsed, pruned, nil)
		if err == nil && !equality.Semantic.DeepEqual(pruned, v.Schema) {
			v.Schema = pruned.DeepCopy()
		}
	}
}

// embedsDefaults reports whether a schema may have a default with metadata in it: one of an embedded resource, or one of
// what contains such a resource.
func embedsDefaults(s *apiextensionsv1.JSONSchemaProps, within bool) bool {
	if s == nil {
		return false
	}
	if within = within || s.Default != nil; within && s.XEmbeddedResource {
		return true
	}
	for _, p := range s.Properties {
		if embedsDefaults(&p, within) {
			return true
		}
	}
	return s.Items != nil && embedsDefaults(s.Items.Schema, within) ||
		s.AdditionalProperties != nil && embedsDefaults(s.AdditionalProperties.Schema, within)
}

// pruneMetadata looks for defaults outside of metadata, where schemas have none of their own.
func pruneMetadata(s *structural.Structural, root bool) {
	if s == nil {
		return
	}
	if s.Default.Object != nil {
		_ = objectmeta.Coerce(nil, s.Default.Object, s, s.XEmbeddedResource, false) // validation has refused what fails
	}
	for name, p := range s.Properties {
		if name != "metadata" || !root && !s.XEmbeddedResource {
			pruneMetadata(&p, false)
		}
	}
	pruneMetadata(s.Items, false)
	if s.AdditionalProperties != nil {
		pruneMetadata(s.AdditionalProperties.Structural, false)
	}
}
