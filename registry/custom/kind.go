package custom

import (
	"context"
	"maps"
	"math"
	"slices"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/warning"

	"github.com/keelson-dev/keelson/registry"
)

// Kind returns the kind for a registry, whose objects are of type *unstructured.Unstructured, without apiVersion and
// kind as all objects of a registry. A write is validated in the version in which it was sent, and pruned by the schema
// of the stored version as the last step.
func (r *Resource) Kind() registry.Kind {
	v := r.Storage()
	k := registry.Definition[object]{
		Names:        r.registryNames(),
		GroupVersion: v.GroupVersionKind().GroupVersion(),
		Namespaced:   r.namespaced,
		Prefix:       r.group + "/" + r.names.Plural,
		New:          newObject,
		NewList:      newList,
		Fields:       r.fields,
		Warning:      v.warning,
	}.Kind()
	k.Rules, k.Sub, k.Columns = *v.registryRules(), *v.subresources(), *v.registryColumns()
	k.Decode, k.DecodeStored = v.decodeInto, r.decodeForRegistry
	k.FieldLabel, k.Unserved = v.fieldLabel, !v.served
	k.Schema, k.ValidateUpdate = v.sharedSchema, v.validateChange
	for _, other := range r.versions {
		if other != v && other.served {
			k.Also = append(k.Also, other.also())
		}
	}
	return k
}

func (r *Resource) registryNames() registry.Names {
	return registry.Names{
		Kind: r.names.Kind, Plural: r.names.Plural, Singular: r.names.Singular, List: r.names.ListKind,
		Short: r.names.ShortNames, Categories: r.names.Categories,
	}
}

func newObject() object { return &unstructured.Unstructured{Object: map[string]any{}} }

func newList() runtime.Object { return &unstructured.UnstructuredList{Object: map[string]any{}} }

// typed returns an object that shares the content of obj, with the type that objects in a registry lack unless they are to be
// refused.
func (v *Version) typed(obj object) object {
	out := &unstructured.Unstructured{Object: maps.Clone(obj.Object)}
	if !foreign(obj) {
		out.SetGroupVersionKind(v.GroupVersionKind())
	}
	return out
}

// foreign reports whether an object of a registry is of another type than its own, as a client has sent it. It is neither
// converted nor given defaults, and found invalid.
func foreign(obj object) bool {
	_, kind := obj.Object["kind"]
	_, apiVersion := obj.Object["apiVersion"]
	return kind || apiVersion
}

// untyped drops the type of an object.
func untyped(obj object) object {
	delete(obj.Object, "apiVersion")
	delete(obj.Object, "kind")
	return obj
}

// decodeInto is registry.Kind's Decode.
func (v *Version) decodeInto(data []byte, into registry.Object) ([]error, error) {
	obj, strict, err := v.decodeNamed(data)
	if err != nil {
		return nil, err
	}
	if obj.GroupVersionKind() == v.GroupVersionKind() {
		untyped(obj)
	}
	into.(object).Object = obj.Object
	return strict, nil
}

// decodeForRegistry is registry.Kind's DecodeStored.
func (r *Resource) decodeForRegistry(data []byte) (registry.Object, error) {
	obj, err := r.DecodeStored(data)
	if err != nil {
		return nil, err
	}
	if v := r.Storage(); r.of(obj) != v {
		if obj, err = r.Convert(context.Background(), obj, v.name); err != nil {
			return nil, err
		}
	}
	r.Storage().kept.managed.share(obj)
	return untyped(obj), nil
}

// plain reports whether objects of the version differ from stored ones in nothing but their type, before they are pruned.
func (v *Version) plain() bool {
	return v.storage || v.resource.strategy == apiextensionsv1.NoneConverter
}

// view returns a stored object in this version, with its type. It may share the content of obj.
func (v *Version) view(obj object) (object, error) {
	if v.plain() || foreign(obj) {
		return v.typed(obj), nil
	}
	return v.resource.Convert(context.Background(), v.resource.Storage().typed(obj), v.name)
}

// seen returns a stored object with what objects of this version have before they are stored. It may share the content of obj.
func (v *Version) seen(obj object) object {
	if v.storage || !v.plain() || foreign(obj) {
		return obj
	}
	out, err := v.resource.Convert(context.Background(), v.resource.Storage().typed(obj), v.name)
	if err != nil {
		return obj // malformed metadata of an embedded resource, which validation finds
	}
	return untyped(out)
}

func (v *Version) fromStored(ctx context.Context, obj registry.Object) (registry.Object, error) {
	out, err := v.resource.Convert(ctx, v.resource.Storage().typed(obj.(object)), v.name)
	if err != nil {
		return nil, err
	}
	return untyped(out), nil
}

// allFromStored converts with one call of the webhook.
func (v *Version) allFromStored(ctx context.Context, objs []registry.Object) ([]registry.Object, error) {
	typed := make([]object, len(objs))
	for i, obj := range objs {
		typed[i] = v.resource.Storage().typed(obj.(object))
	}
	converted, err := v.resource.ConvertAll(ctx, typed, v.name)
	if err != nil {
		return nil, err
	}
	out := make([]registry.Object, len(objs))
	for i, obj := range converted {
		out[i] = untyped(obj)
	}
	return out, nil
}

// toStored leaves it to the last step of the write to prune, so that the object can be validated in this version.
func (v *Version) toStored(ctx context.Context, obj registry.Object) (registry.Object, error) {
	if v.plain() || foreign(obj.(object)) {
		return obj, nil
	}
	storage := v.resource.Storage()
	out, err := v.resource.Convert(ctx, v.typed(obj.(object)), storage.name)
	if err != nil {
		return nil, err
	}
	storage.Default(out)
	return untyped(out), nil
}

func (v *Version) registryRules() *registry.Rules[registry.Object] {
	rules := &registry.Rules[registry.Object]{
		AnyFinalizer:      true,
		ConditionalUpdate: true,
		PrepareCreate:     func(_ context.Context, obj registry.Object) { v.PrepareCreate(obj.(object)) },
		PrepareUpdate:     func(_ context.Context, obj, old registry.Object) { v.PrepareUpdate(obj.(object), v.seen(old.(object))) },
		Validate:          func(obj registry.Object) field.ErrorList { return v.validateStored(obj.(object)) },
		ValidateUpdate: func(obj, old registry.Object) field.ErrorList {
			return v.validateBoth(context.Background(), obj, old, v.validateUpdate)
		},
		Store: func(obj registry.Object) { v.resource.Storage().prune(obj.(object)) },
		Guard: func(ctx context.Context, obj, old registry.Object) error {
			before, _ := old.(object)
			for _, text := range Warnings(obj.(object), before) {
				registry.Warn(ctx, text)
			}
			return nil
		},
	}
	if v.plain() {
		rules.Default = func(obj registry.Object) { v.setDefaults(obj.(object)) }
	}
	return rules
}

// setDefaults sets the schema's defaults in an object of a registry.
func (v *Version) setDefaults(obj object) {
	if foreign(obj) {
		return
	}
	u := v.typed(obj)
	v.Default(u)
	obj.Object = untyped(u).Object
}

// prune prunes an object of a registry that has been validated, and makes it what is read when it has been stored.
func (v *Version) prune(obj object) {
	u := v.typed(obj)
	if _, err := v.resource.coerce(u, coercion{}); err == nil {
		v.Default(u) // what was sent in another version, or as another kind, lacks those of this one
		obj.Object = untyped(u).Object
	}
	asStored(obj.Object)
	v.kept.managed.share(obj)
}

// asStored makes what is inside a JSON value what it is after it was encoded and decoded: a number such as 1e2 becomes an
// integer. It returns what replaces the value itself, or nil if that stays.
func asStored(value any) any {
	switch value := value.(type) {
	case map[string]any:
		for name, v := range value {
			if is := asStored(v); is != nil {
				value[name] = is
			}
		}
	case []any:
		for i, v := range value {
			if is := asStored(v); is != nil {
				value[i] = is
			}
		}
	case float64:
		if n := int64(value); value < math.MaxInt64 && float64(n) == value {
			return n
		}
	}
	return nil
}

// validateStored validates an object of a registry, which validates metadata itself.
func (v *Version) validateStored(obj object) field.ErrorList {
	u, err := v.view(obj)
	if err != nil {
		return field.ErrorList{field.InternalError(nil, err)}
	}
	return v.validate(context.Background(), u, false)
}

// recorder passes on the warnings of CEL rules.
type recorder func(text string)

func (r recorder) AddWarning(_, text string) { r(text) }

// withWarnings returns a context in which CEL rules warn the client of what they refuse and an update leaves as it was.
func withWarnings(ctx context.Context) context.Context {
	return warning.WithWarningRecorder(ctx, recorder(func(text string) { registry.Warn(ctx, text) }))
}

// validateChange validates an update of the object, or of a view of it, and warns of what it lets pass.
func (v *Version) validateChange(ctx context.Context, view string, obj, old registry.Object) field.ErrorList {
	if view == "status" {
		return v.validateBoth(withWarnings(ctx), obj, old, v.validateStatus)
	}
	return v.validateBoth(withWarnings(ctx), obj, old, v.validateUpdate)
}

// validateBoth is validateStored for an update. What it says of metadata, the registry says, too, as upstream's does.
func (v *Version) validateBoth(ctx context.Context, obj, old registry.Object, validate func(ctx context.Context, obj, old object, withMeta bool) field.ErrorList) field.ErrorList {
	is, err := v.view(obj.(object))
	if err != nil {
		return field.ErrorList{field.InternalError(nil, err)}
	}
	was, err := v.view(old.(object))
	if err != nil {
		return field.ErrorList{field.InternalError(nil, err)}
	}
	return validate(ctx, is, was, true)
}

func (v *Version) subresources() *registry.Subresources[registry.Object] {
	out := &registry.Subresources[registry.Object]{}
	if v.hasStatus {
		out.Views = map[string]registry.View[registry.Object]{"status": {
			PrepareUpdate: func(_ context.Context, obj, old registry.Object) { v.PrepareStatus(obj.(object), old.(object)) },
			ValidateUpdate: func(obj, old registry.Object) field.ErrorList {
				return v.validateBoth(context.Background(), obj, old, v.validateStatus)
			},
			Resets: []string{"metadata", "spec"},
		}}
	}
	if s := v.scale; s != nil {
		out.Scale = &registry.Scale[registry.Object]{
			Spec: func(obj registry.Object) int32 {
				u, err := v.view(obj.(object))
				if err != nil {
					return 0
				}
				n, _, _ := s.spec.number(u)
				return int32(n) //nolint:gosec // validated
			},
			Status: func(obj registry.Object) (int32, string) {
				u, err := v.view(obj.(object))
				if err != nil {
					return 0, ""
				}
				current, _ := v.Scale(u)
				if current == nil { // ErrNoReplicas leaves the current ones
					return 0, ""
				}
				return current.Status.Replicas, current.Status.Selector
			},
			Set:       func(obj registry.Object, n int32) { v.setStoredReplicas(obj.(object), n) },
			Readable:  func(obj registry.Object) error { return v.readable(obj.(object)) },
			Validated: true,
		}
	}
	return out
}

// readable returns why a stored object has no Scale.
func (v *Version) readable(obj object) error {
	u, err := v.view(obj)
	if err == nil {
		_, err = v.Scale(u)
	}
	return err
}

// setStoredReplicas changes the number of replicas of a stored object. It fails silently where no schema says that there
// is a number.
func (v *Version) setStoredReplicas(obj object, n int32) {
	if v.plain() {
		_ = v.SetReplicas(obj, n)
		return
	}
	u, err := v.view(obj)
	if err != nil || v.SetReplicas(u, n) != nil {
		return
	}
	if back, err := v.toStored(context.Background(), untyped(u)); err == nil {
		obj.Object = back.(object).Object
	}
}

// fields returns the values of all fields that are selectable in some version, by their labels and, where values may
// depend on the version, its name.
func (r *Resource) fields(obj object) fields.Set {
	out := fields.Set{}
	for _, v := range r.versions {
		if len(v.fields) == 0 {
			continue
		}
		u, err := v.view(obj)
		if err != nil {
			u = newObject()
		}
		for label, value := range v.Fields(u) {
			out[v.storedLabel(label)] = value
		}
	}
	return out
}

func (v *Version) storedLabel(label string) string {
	if v.plain() {
		return label
	}
	return v.name + ":" + label
}

func (v *Version) fieldLabel(label string) (string, bool) {
	return v.storedLabel(label), slices.Contains(v.SelectableFields(), label)
}

func (v *Version) registryColumns() *registry.Columns[registry.Object] {
	return &registry.Columns[registry.Object]{
		Definitions: v.columns.Definitions,
		Cells:       func(obj registry.Object, now time.Time) []any { return v.columns.Cells(obj.(object), now) },
	}
}

// also returns a version that is not the stored one.
func (v *Version) also() registry.Version {
	out := registry.Version{
		Names:        v.resource.registryNames(),
		GroupVersion: v.GroupVersionKind().GroupVersion(),
		New:          func() registry.Object { return newObject() },
		NewList:      newList,
		FromStored:   v.fromStored,
		ToStored:     v.toStored,
		Untyped:      registry.Untyped{Decode: v.decodeInto, Schema: v.sharedSchema, ValidateUpdate: v.validateChange},
		FieldLabel:   v.fieldLabel,
		Rules:        v.registryRules(),
		Sub:          v.subresources(),
		Columns:      v.registryColumns(),
		Warning:      v.warning,
	}
	if !v.plain() {
		out.AllFromStored = v.allFromStored
	}
	return out
}
