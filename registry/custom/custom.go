package custom

import (
	"context"
	"errors"
	"fmt"
	"slices"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var (
	// ErrDefinition means that a definition cannot be used: it is invalid, or its schemas cannot be interpreted.
	ErrDefinition = errors.New("unusable definition")
	// ErrVersion means that a kind has no such version.
	ErrVersion = errors.New("no such version")
	// ErrNoConverter means that a definition leaves conversion to a webhook, and that Options has no Converter.
	ErrNoConverter = errors.New("the definition leaves conversion to a webhook, and there is no converter")
)

// Converter converts objects between versions of a kind whose definition leaves that to a webhook.
type Converter interface {
	// Convert returns the given objects in another version, in the same order. It may change its arguments. It is
	// safe for concurrent use.
	Convert(ctx context.Context, objs []*unstructured.Unstructured, to schema.GroupVersion) ([]*unstructured.Unstructured, error)
}

// ConverterFunc is a function as a Converter.
type ConverterFunc func(ctx context.Context, objs []*unstructured.Unstructured, to schema.GroupVersion) ([]*unstructured.Unstructured, error)

// Convert implements Converter.
func (f ConverterFunc) Convert(ctx context.Context, objs []*unstructured.Unstructured, to schema.GroupVersion) ([]*unstructured.Unstructured, error) {
	return f(ctx, objs, to)
}

// Options are the options of New.
type Options struct {
	// Converter is required for conversions of kinds with the conversion strategy Webhook.
	Converter Converter
}

// Resource is a custom kind in all its versions. It is safe for concurrent use.
type Resource struct {
	group      string
	names      apiextensionsv1.CustomResourceDefinitionNames
	namespaced bool
	// preserve keeps fields that are in no schema, which only definitions from before apiextensions.k8s.io/v1 ask for.
	preserve  bool
	strategy  apiextensionsv1.ConversionStrategyType
	converter Converter
	versions  []*Version
}

// New returns the kind that a definition defines. The definition has upstream's defaults, as those that Read or a
// server returns do. It is kept, and must not be changed any more. New does not validate it, except that its errors, which
// wrap ErrDefinition, report schemas that cannot be interpreted. A schema is compiled when an object is first read or
// written.
func New(crd *apiextensionsv1.CustomResourceDefinition, o Options) (*Resource, error) {
	r := &Resource{
		group: crd.Spec.Group, names: crd.Status.AcceptedNames, namespaced: crd.Spec.Scope == apiextensionsv1.NamespaceScoped,
		preserve: crd.Spec.PreserveUnknownFields, strategy: apiextensionsv1.NoneConverter, converter: o.Converter,
	}
	if r.names.Plural == "" { // no server has accepted names
		r.names = crd.Spec.Names
	}
	if crd.Spec.Conversion != nil {
		r.strategy = crd.Spec.Conversion.Strategy
	}
	for i := range crd.Spec.Versions {
		v, err := newVersion(r, &crd.Spec, i)
		if err != nil {
			return nil, fmt.Errorf("%w %s: version %s: %w", ErrDefinition, crd.Name, crd.Spec.Versions[i].Name, err)
		}
		r.versions = append(r.versions, v)
	}
	if r.Storage() == nil {
		return nil, fmt.Errorf("%w %s: no version is stored", ErrDefinition, crd.Name)
	}
	return r, nil
}

// Versions returns all versions, served or not, in the definition's order.
func (r *Resource) Versions() []*Version { return slices.Clone(r.versions) }

// Version returns a version by its name, served or not, or ErrVersion.
func (r *Resource) Version(name string) (*Version, error) {
	if v := r.find(func(v *Version) bool { return v.name == name }); v != nil {
		return v, nil
	}
	return nil, fmt.Errorf("%s.%s: %w: %q", r.names.Plural, r.group, ErrVersion, name)
}

// Storage returns the version in which objects are stored.
func (r *Resource) Storage() *Version {
	return r.find(func(v *Version) bool { return v.storage })
}

func (r *Resource) find(is func(*Version) bool) *Version {
	if i := slices.IndexFunc(r.versions, is); i >= 0 {
		return r.versions[i]
	}
	return nil
}

// of returns the version of this kind that an object names, or nil.
func (r *Resource) of(u *unstructured.Unstructured) *Version {
	gvk := u.GroupVersionKind()
	return r.find(func(v *Version) bool { return v.GroupVersionKind() == gvk })
}
