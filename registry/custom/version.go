package custom

import (
	"fmt"
	"sync"

	upstream "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structural "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"
	celconfig "k8s.io/apiserver/pkg/apis/cel"

	"github.com/keelson-dev/keelson/registry"
)

// Version is one version of a custom kind, with its rules. The rules do not keep the objects that they are given. It
// is safe for concurrent use.
type Version struct {
	resource *Resource
	name     string
	served   bool
	storage  bool
	warning  string
	schema   *structural.Structural // nil if there is none
	whole    validation.SchemaValidator
	status   validation.SchemaValidator // of the status alone; nil if it has no schema
	// hasStatus tells whether the status is a subresource.
	hasStatus bool
	scale     *scale // nil if there is no such subresource
	// rules returns the compiled CEL rules, or nil if there are none.
	rules   func() *cel.Validator
	columns registry.Columns[object]
	fields  []selectable
}

func newVersion(r *Resource, spec *apiextensionsv1.CustomResourceDefinitionSpec, i int) (*Version, error) {
	declared := &spec.Versions[i]
	v := &Version{
		resource: r, name: declared.Name, served: declared.Served, storage: declared.Storage, warning: deprecation(spec, declared),
		columns: newColumns(declared.AdditionalPrinterColumns), fields: newSelectable(declared.SelectableFields),
	}
	props, err := schemaOf(declared)
	if err != nil {
		return nil, err
	}
	if err := v.setSchema(props); err != nil {
		return nil, err
	}
	if v.whole, _, err = validation.NewSchemaValidator(props); err != nil {
		return nil, err
	}
	if sub := declared.Subresources; sub != nil {
		v.hasStatus = sub.Status != nil
		if sub.Scale != nil {
			v.scale = newScale(sub.Scale)
		}
	}
	if v.hasStatus && props != nil {
		if status, ok := props.Properties["status"]; ok {
			if v.status, _, err = validation.NewSchemaValidator(&status); err != nil {
				return nil, err
			}
		}
	}
	v.rules = sync.OnceValue(func() *cel.Validator { return cel.NewValidator(v.schema, true, celconfig.PerCallLimit) })
	return v, nil
}

// schemaOf returns the schema of a version in the form that upstream's library takes, or nil.
func schemaOf(v *apiextensionsv1.CustomResourceDefinitionVersion) (*upstream.JSONSchemaProps, error) {
	if v.Schema == nil {
		return nil, nil //nolint:nilnil // a version need not have a schema
	}
	if err := bounded(v.Schema.OpenAPIV3Schema); err != nil {
		return nil, err
	}
	out := &upstream.CustomResourceValidation{}
	if err := apiextensionsv1.Convert_v1_CustomResourceValidation_To_apiextensions_CustomResourceValidation(v.Schema, out, nil); err != nil {
		return nil, err
	}
	return out.OpenAPIV3Schema, nil
}

// setSchema interprets the schema. Only kinds that preserve unknown fields can do without an interpretation.
func (v *Version) setSchema(props *upstream.JSONSchemaProps) error {
	s, err := structural.NewStructural(props)
	if v.resource.preserve {
		if err == nil {
			v.schema = s
		}
		return nil
	}
	if err != nil {
		return err
	}
	v.schema = s.DeepCopy() // of the defaults, too
	return defaulting.PruneDefaults(v.schema)
}

// deprecation returns the warning that accompanies answers in a version, or "".
func deprecation(spec *apiextensionsv1.CustomResourceDefinitionSpec, v *apiextensionsv1.CustomResourceDefinitionVersion) string {
	if !v.Deprecated {
		return ""
	}
	if v.DeprecationWarning != nil {
		return *v.DeprecationWarning
	}
	text := fmt.Sprintf("%s/%s %s is deprecated", spec.Group, v.Name, spec.Names.Kind)
	better := ""
	for _, other := range spec.Versions {
		if other.Served && !other.Deprecated && version.CompareKubeAwareVersionStrings(v.Name, other.Name) < 0 &&
			(better == "" || version.CompareKubeAwareVersionStrings(better, other.Name) < 0) {
			better = other.Name
		}
	}
	if better != "" {
		text += fmt.Sprintf("; use %s/%s %s", spec.Group, better, spec.Names.Kind)
	}
	return text
}

// GroupVersionKind returns the type of the version's objects.
func (v *Version) GroupVersionKind() schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: v.resource.group, Version: v.name, Kind: v.resource.names.Kind}
}

// Name returns the name of the version, such as "v1".
func (v *Version) Name() string { return v.name }

// Served reports whether clients can use the version.
func (v *Version) Served() bool { return v.served }

// Stored reports whether objects are stored in the version.
func (v *Version) Stored() bool { return v.storage }

// Warning returns what clients of a deprecated version are told, or "".
func (v *Version) Warning() string { return v.warning }

// HasStatus reports whether the status is a subresource, which writes of the object itself do not change.
func (v *Version) HasStatus() bool { return v.hasStatus }
