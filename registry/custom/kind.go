package custom

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-dev/keelson/registry"
)

// ErrUnservable means that a registry.Kind cannot express a custom kind.
var ErrUnservable = errors.New("a registry cannot serve the kind")

// Kind returns the kind for a registry, whose objects are of type *unstructured.Unstructured, without apiVersion and
// kind as all objects of a registry. A registry.Kind has one set of columns and one scale for all versions: those of
// the version that is stored. It validates objects of other versions after having pruned them by the schema of the
// stored version. The error wraps ErrUnservable if the stored version is not served, if a webhook converts between
// versions, for conversions in a registry cannot fail, or if the list's kind is not the kind's with "List".
func (r *Resource) Kind() (registry.Kind, error) {
	v := r.Storage()
	switch {
	case !v.served:
		return registry.Kind{}, fmt.Errorf("%s.%s: %w: version %s is stored but not served", r.names.Plural, r.group, ErrUnservable, v.name)
	case len(r.versions) > 1 && r.strategy != apiextensionsv1.NoneConverter:
		return registry.Kind{}, fmt.Errorf("%s.%s: %w: it has the conversion strategy %s", r.names.Plural, r.group, ErrUnservable, r.strategy)
	case r.names.ListKind != r.names.Kind+"List":
		return registry.Kind{}, fmt.Errorf("%s.%s: %w: its list is of kind %s", r.names.Plural, r.group, ErrUnservable, r.names.ListKind)
	}
	k := registry.Definition[object]{
		Names: registry.Names{
			Kind: r.names.Kind, Plural: r.names.Plural, Singular: r.names.Singular,
			Short: r.names.ShortNames, Categories: r.names.Categories,
		},
		GroupVersion: v.GroupVersionKind().GroupVersion(),
		Namespaced:   r.namespaced,
		Prefix:       r.group + "/" + r.names.Plural,
		New:          newObject,
		NewList:      newList,
		Rules:        v.registryRules(),
		Fields:       r.fields,
		Sub:          v.subresources(),
		Columns:      v.columns,
	}.Kind()
	for _, other := range r.versions {
		switch {
		case other == v:
		case other.served:
			k.Also = append(k.Also, other.also(k.Names))
		default:
			k.Older = append(k.Older, registry.Older{
				GroupVersion: other.GroupVersionKind().GroupVersion(),
				New:          func() runtime.Object { return newObject() },
				ToStored:     func(obj runtime.Object) registry.Object { other.complete(obj.(object)); return obj.(object) },
			})
		}
	}
	if len(k.Also) == 0 {
		k.Warning = v.warning
	}
	return k, nil
}

func newObject() object { return &unstructured.Unstructured{Object: map[string]any{}} }

func newList() runtime.Object { return &unstructured.UnstructuredList{Object: map[string]any{}} }

// typed returns an object that shares the content of obj, with the type that objects in a registry lack.
func (v *Version) typed(obj object) object {
	out := &unstructured.Unstructured{Object: maps.Clone(obj.Object)}
	out.SetGroupVersionKind(v.GroupVersionKind())
	return out
}

// complete prunes an object of a registry by the schema of the version and sets the defaults.
func (v *Version) complete(obj object) {
	u := v.typed(obj)
	if _, err := v.resource.coerce(u, coercion{stored: true}); err == nil { // what is malformed stays as it is
		v.Default(u)
	}
	delete(u.Object, "apiVersion")
	delete(u.Object, "kind")
	obj.Object = u.Object
}

func (v *Version) registryRules() registry.Rules[object] {
	return registry.Rules[object]{
		AnyFinalizer:      true,
		ConditionalUpdate: true,
		Default:           v.complete,
		PrepareCreate:     func(_ context.Context, obj object) { v.PrepareCreate(obj) },
		PrepareUpdate:     func(_ context.Context, obj, old object) { v.PrepareUpdate(obj, old) },
		Validate:          v.validateStored,
		ValidateUpdate:    v.validateStoredUpdate,
		Guard: func(ctx context.Context, obj, old object) error {
			for _, text := range Warnings(obj, old) {
				registry.Warn(ctx, text)
			}
			return nil
		},
	}
}

// validateStored validates an object of a registry, which validates metadata itself.
func (v *Version) validateStored(obj object) field.ErrorList {
	return v.validate(context.Background(), v.typed(obj), false)
}

func (v *Version) validateStoredUpdate(obj, old object) field.ErrorList {
	return v.validateUpdate(context.Background(), v.typed(obj), v.typed(old), false)
}

func (v *Version) subresources() registry.Subresources[object] {
	var out registry.Subresources[object]
	if v.hasStatus {
		out.Views = map[string]registry.View[object]{"status": {
			PrepareUpdate: func(_ context.Context, obj, old object) { v.PrepareStatus(obj, old) },
			ValidateUpdate: func(obj, old object) field.ErrorList {
				return v.validateStatus(context.Background(), v.typed(obj), v.typed(old), false)
			},
			Resets: []string{"metadata", "spec"},
		}}
	}
	if s := v.scale; s != nil {
		out.Scale = &registry.Scale[object]{
			Spec: func(obj object) int32 {
				n, _, _ := s.spec.number(obj)
				return int32(n) //nolint:gosec // validated
			},
			Status: func(obj object) (int32, string) {
				current, _ := v.Scale(obj)
				if current == nil { // ErrNoReplicas leaves the current ones
					return 0, ""
				}
				return current.Status.Replicas, current.Status.Selector
			},
			Set: func(obj object, n int32) {
				_ = v.SetReplicas(obj, n) // fails for objects that no schema describes
			},
		}
	}
	return out
}

// fields returns the values of all fields that are selectable in some version.
func (r *Resource) fields(obj object) fields.Set {
	out := fields.Set{}
	for _, v := range r.versions {
		maps.Copy(out, v.Fields(obj))
	}
	return out
}

// also returns a version that is not the stored one. Between versions, only apiVersion differs.
func (v *Version) also(names registry.Names) registry.Version {
	selectable := v.SelectableFields()
	completed := func(obj registry.Object) registry.Object {
		out := obj.(object).DeepCopy()
		v.complete(out)
		return out
	}
	return registry.Version{
		Names:        names,
		GroupVersion: v.GroupVersionKind().GroupVersion(),
		New:          func() registry.Object { return newObject() },
		NewList:      newList,
		FromStored: func(obj registry.Object) registry.Object {
			out := v.typed(obj.(object).DeepCopy())
			_, _ = v.resource.coerce(out, coercion{stored: true}) // what is malformed stays as it is
			delete(out.Object, "apiVersion")
			delete(out.Object, "kind")
			return out
		},
		ToStored: completed,
		Validate: func(obj registry.Object) field.ErrorList { return v.validateStored(obj.(object)) },
		ValidateUpdate: func(obj, old registry.Object) field.ErrorList {
			return v.validateStoredUpdate(obj.(object), old.(object))
		},
		FieldLabel: func(label string) (string, bool) { return label, slices.Contains(selectable, label) },
	}
}
