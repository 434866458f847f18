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
		s.XEmbeddedResource = true
		pruneMetadata(s, false) // of the defaults that are parsed's, too
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
		s.AdditionalProperties != nil && within && embedsDefaults(s.AdditionalProperties.Schema, within)
}

// pruneMetadata looks where upstream does: not below additionalProperties, which upstream takes to have no defaults, and not at
// the type and metadata of resources.
func pruneMetadata(s *structural.Structural, ofResource bool) {
	if s == nil {
		return
	}
	if s.XEmbeddedResource {
		ofResource = false
	}
	if s.Default.Object != nil && !ofResource {
		_ = objectmeta.Coerce(nil, s.Default.Object, s, s.XEmbeddedResource, false) // validation has refused what fails
	}
	pruneMetadata(s.Items, ofResource)
	for name, p := range s.Properties {
		own := s.XEmbeddedResource && (name == "metadata" || name == "apiVersion" || name == "kind")
		pruneMetadata(&p, ofResource || own)
	}
}
