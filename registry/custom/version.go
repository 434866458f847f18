package custom

import (
	"fmt"
	"sync"
	"sync/atomic"
	"weak"

	upstream "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structural "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/kube-openapi/pkg/validation/spec"

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
	declared *apiextensionsv1.CustomResourceValidation // nil if there is no schema
	// interpreted returns the schema as it is applied to objects, and validators what validates them by it. Both are made
	// when first used, since most definitions of a large set never have an object.
	interpreted func() (*structural.Structural, error)
	shape       func() *shape // of the schema; nil if there is none
	validators  func() (validators, error)
	// hasStatus tells whether the status is a subresource.
	hasStatus bool
	scale     *scale // nil if there is no such subresource
	// rules returns the compiled CEL rules, or nil if there are none.
	rules   func() *cel.Validator
	columns registry.Columns[object]
	fields  []selectable
	kept    kept
}

// kept is what a version keeps between requests.
type kept struct {
	managed trees // of stored objects
	// published is the schema that was made last, until the next garbage collection.
	published atomic.Pointer[weak.Pointer[map[string]any]]
}

// validators validate values by the types and bounds of a schema.
type validators struct {
	whole  validation.SchemaValidator
	status validation.SchemaValidator // of the status alone; nil if it has no schema
	// These know what is certainly valid by them.
	sureWhole, sureStatus *sure
}

func newVersion(r *Resource, spec *apiextensionsv1.CustomResourceDefinitionSpec, i int) (*Version, error) {
	declared := &spec.Versions[i]
	v := &Version{
		resource: r, name: declared.Name, served: declared.Served, storage: declared.Storage, warning: deprecation(spec, declared),
		columns: newColumns(declared.AdditionalPrinterColumns), fields: newSelectable(declared.SelectableFields),
		declared: declared.Schema,
	}
	if sub := declared.Subresources; sub != nil {
		v.hasStatus = sub.Status != nil
		if sub.Scale != nil {
			v.scale = newScale(sub.Scale)
		}
	}
	v.interpreted, v.validators = sync.OnceValues(v.interpret), sync.OnceValues(v.newValidators)
	v.shape = sync.OnceValue(func() *shape { return newShape(v.schema()) })
	v.rules = sync.OnceValue(func() *cel.Validator { return cel.NewValidator(v.schema(), true, celconfig.PerCallLimit) })
	if v.declared == nil {
		return v, nil
	}
	if err := bounded(v.declared.OpenAPIV3Schema); err != nil {
		return nil, err
	}
	if !certain(v.declared.OpenAPIV3Schema) {
		if err := v.usable(); err != nil {
			return nil, err
		}
	}
	return v, nil
}

// usable returns an error if the schema cannot be interpreted.
func (v *Version) usable() error {
	if _, err := v.interpreted(); err != nil {
		return err
	}
	_, err := v.validators()
	return err
}

// schema returns the interpreted schema, or nil if there is none.
func (v *Version) schema() *structural.Structural {
	s, _ := v.interpreted()
	return s
}

// props returns the schema in the form that upstream's library takes, or nil.
func (v *Version) props() (*upstream.JSONSchemaProps, error) {
	if v.declared == nil {
		return nil, nil //nolint:nilnil // a version need not have a schema
	}
	out := &upstream.CustomResourceValidation{}
	if err := apiextensionsv1.Convert_v1_CustomResourceValidation_To_apiextensions_CustomResourceValidation(v.declared, out, nil); err != nil {
		return nil, err
	}
	return out.OpenAPIV3Schema, nil
}

// interpret interprets the schema. Only kinds that preserve unknown fields can do without an interpretation.
func (v *Version) interpret() (*structural.Structural, error) {
	props, err := v.props()
	if err != nil {
		return nil, err
	}
	s, err := structural.NewStructural(props)
	s = s.DeepCopy() // it may share memory with the definition, which is not ours to change
	if v.resource.preserve {
		if err != nil {
			s = nil
		}
		return s, nil
	}
	if err != nil {
		return nil, err
	}
	if err := defaulting.PruneDefaults(s); err != nil {
		return nil, err
	}
	return s, nil
}

func (v *Version) newValidators() (out validators, err error) {
	props, err := v.props()
	if err != nil {
		return out, err
	}
	var as *spec.Schema
	if out.whole, as, err = validation.NewSchemaValidator(props); err != nil {
		return out, err
	}
	out.sureWhole = newSure(as)
	if v.hasStatus && props != nil {
		if status, ok := props.Properties["status"]; ok {
			out.status, as, err = validation.NewSchemaValidator(&status)
			out.sureStatus = newSure(as)
		}
	}
	return out, err
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
