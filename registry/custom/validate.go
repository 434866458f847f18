package custom

import (
	"context"
	"fmt"

	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel/model"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/objectmeta"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/api/operation"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/cel/common"
)

// Validate validates a new object: its type, metadata, schema, scale, embedded resources, lists and CEL rules. The
// rules are compiled when the first object needs them, and are not evaluated for an object that does not have the
// types and sizes on which their cost was estimated.
func (v *Version) Validate(ctx context.Context, obj *unstructured.Unstructured) field.ErrorList {
	return v.validate(ctx, obj, true)
}

// ValidateUpdate validates the new state of an object. What does not change may stay invalid where a schema or a CEL
// rule refuses it, and so may lists.
func (v *Version) ValidateUpdate(ctx context.Context, obj, old *unstructured.Unstructured) field.ErrorList {
	return v.validateUpdate(ctx, obj, old, true)
}

// ValidateStatusUpdate validates an update of the status.
func (v *Version) ValidateStatusUpdate(ctx context.Context, obj, old *unstructured.Unstructured) field.ErrorList {
	return v.validateStatus(ctx, obj, old, true)
}

// validate leaves metadata to the registry unless withMeta.
func (v *Version) validate(ctx context.Context, obj object, withMeta bool) field.ErrorList {
	by, err := v.validators()
	if err != nil {
		return field.ErrorList{field.InternalError(nil, err)}
	}
	errs := v.validateType(obj)
	if len(errs) == 0 {
		if withMeta {
			errs = v.validateMeta(ctx, obj, nil)
		}
		if !by.sureWhole.valid(obj.Object) {
			errs = append(errs, validation.ValidateCustomResource(nil, obj.Object, by.whole)...)
		}
		errs = append(errs, v.scale.validateSpec(obj)...)
		errs = append(errs, v.scale.validateStatus(obj)...)
	}
	errs = append(errs, v.validateEmbedded(ctx, obj)...)
	if v.shape().hasUnique(obj.Object) {
		errs = append(errs, listtype.ValidateListSetsAndMaps(nil, v.schema(), obj.Object)...)
	}
	return v.evaluate(ctx, errs, obj, nil, withMeta)
}

func (v *Version) validateUpdate(ctx context.Context, obj, old object, withMeta bool) field.ErrorList {
	by, err := v.validators()
	if err != nil {
		return field.ErrorList{field.InternalError(nil, err)}
	}
	errs := v.validateType(obj)
	if len(errs) == 0 {
		if withMeta {
			errs = v.validateMeta(ctx, obj, old)
		}
		if !by.sureWhole.valid(obj.Object) {
			errs = append(errs, validation.ValidateCustomResourceUpdate(nil, obj.Object, old.Object, by.whole, validation.WithRatcheting(v.correlate(obj, old)))...)
		}
		errs = append(errs, v.scale.validateSpec(obj)...)
		errs = append(errs, v.scale.validateStatus(obj)...)
	}
	errs = append(errs, v.validateEmbedded(ctx, obj)...)
	errs = append(errs, v.validateLists(obj, old)...)
	return v.evaluate(ctx, errs, obj, old, withMeta)
}

func (v *Version) validateStatus(ctx context.Context, obj, old object, withMeta bool) field.ErrorList {
	by, err := v.validators()
	if err != nil {
		return field.ErrorList{field.InternalError(nil, err)}
	}
	errs := v.validateType(obj)
	if len(errs) == 0 {
		if withMeta {
			errs = v.validateMeta(ctx, obj, old)
		}
		if status, ok := obj.Object["status"]; ok && !by.sureStatus.valid(status) {
			var ratchet []validation.ValidationOption
			if v.schema() != nil {
				ratchet = append(ratchet, validation.WithRatcheting(v.correlate(obj, old).Key("status")))
			}
			errs = append(errs, validation.ValidateCustomResourceUpdate(field.NewPath("status"), status, old.Object["status"], by.status, ratchet...)...)
		}
		errs = append(errs, v.scale.validateStatus(obj)...)
	}
	errs = append(errs, v.validateLists(obj, old)...)
	return v.evaluate(ctx, errs, obj, old, withMeta)
}

// correlate pairs the values of two states of an object, to tell which of them have changed.
func (v *Version) correlate(obj, old object) *common.CorrelatedObject {
	return common.NewCorrelatedObject(obj.Object, old.Object, &model.Structural{Structural: v.schema()})
}

// validateEmbedded validates embedded resources.
func (v *Version) validateEmbedded(ctx context.Context, obj object) field.ErrorList {
	if s := v.shape(); s == nil || !s.embeds {
		return nil
	}
	return objectmeta.Validate(ctx, nil, obj.Object, v.schema(), false)
}

// validateLists validates sets and maps, unless the old ones were invalid already.
func (v *Version) validateLists(obj, old object) field.ErrorList {
	if !v.shape().hasUnique(obj.Object) {
		return nil
	}
	if len(listtype.ValidateListSetsAndMaps(nil, v.schema(), old.Object)) > 0 {
		return nil
	}
	return listtype.ValidateListSetsAndMaps(nil, v.schema(), obj.Object)
}

// evaluate appends to errs what the CEL rules say, or that they were not asked because errs shows that values are not
// what the rules expect. If errs does not tell of metadata, the registry will.
func (v *Version) evaluate(ctx context.Context, errs field.ErrorList, obj, old object, withMeta bool) field.ErrorList {
	rules := v.rules()
	if rules == nil {
		return errs
	}
	all := errs
	if !withMeta {
		all = append(v.validateMeta(ctx, obj, old), errs...)
	}
	for _, e := range all {
		switch e.Type { //nolint:exhaustive // the others are about values, which rules can cope with
		case field.ErrorTypeNotSupported, field.ErrorTypeRequired, field.ErrorTypeTooLong, field.ErrorTypeTooMany, field.ErrorTypeTypeInvalid:
			return append(errs, field.Invalid(nil, nil,
				"some validation rules were not checked because the object was invalid; correct the existing errors to complete validation"))
		}
	}
	var before any
	var options []cel.Option
	if old != nil {
		before, options = old.Object, append(options, cel.WithRatcheting(v.correlate(obj, old)))
	}
	found, _ := rules.Validate(ctx, nil, v.schema(), obj.Object, before, celconfig.RuntimeCELCostBudget, options...)
	return append(errs, found...)
}

func (v *Version) validateType(obj object) field.ErrorList {
	gvk := v.GroupVersionKind()
	var errs field.ErrorList
	if kind := obj.GetKind(); kind != gvk.Kind {
		errs = append(errs, field.Invalid(field.NewPath("kind"), kind, "must be "+gvk.Kind))
	}
	if have, want := obj.GetAPIVersion(), gvk.GroupVersion().String(); have != want {
		errs = append(errs, field.Invalid(field.NewPath("apiVersion"), have, "must be "+want))
	}
	return errs
}

// validateMeta validates metadata; old is nil for a new object.
func (v *Version) validateMeta(ctx context.Context, obj, old object) field.ErrorList {
	meta, errs := metadata(obj)
	if len(errs) > 0 {
		return errs
	}
	at := field.NewPath("metadata")
	if old == nil {
		return apivalidation.ValidateObjectMetaDeclaratively(ctx, operation.Create, meta, nil, v.resource.namespaced,
			apivalidation.NameIsDNSSubdomain, at, true)
	}
	before, errs := metadata(old)
	if len(errs) > 0 {
		return errs
	}
	return apivalidation.ValidateObjectMetaDeclaratively(ctx, operation.Update, meta, before, v.resource.namespaced, nil, at, true)
}

func metadata(obj object) (*metav1.ObjectMeta, field.ErrorList) {
	meta := &metav1.ObjectMeta{}
	switch content := obj.Object["metadata"].(type) {
	case nil:
	case map[string]any:
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(content, meta); err != nil {
			return nil, field.ErrorList{field.Invalid(field.NewPath("metadata"), content, err.Error())}
		}
	default:
		return nil, field.ErrorList{field.Invalid(field.NewPath("metadata"), content, fmt.Sprintf("expected map[string]interface{}, got %T", content))}
	}
	return meta, nil
}
