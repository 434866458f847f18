package apiextensions

import (
	"context"
	"slices"

	upstream "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation"
	"k8s.io/apimachinery/pkg/api/operation"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func validate(crd *apiextensionsv1.CustomResourceDefinition) field.ErrorList {
	obj, err := internal(crd)
	if err != nil {
		return unparsable(err)
	}
	ctx := context.Background()
	errs := validation.ValidateCustomResourceDefinition(ctx, obj)
	explainBudget(obj, errs)
	return without(errs,
		apivalidation.ValidateObjectMetaDeclaratively(ctx, operation.Create, &obj.ObjectMeta, nil, false,
			apivalidation.NameIsDNSSubdomain, field.NewPath("metadata"), true))
}

func validateUpdate(crd, old *apiextensionsv1.CustomResourceDefinition) field.ErrorList {
	return change(crd, old, validation.ValidateCustomResourceDefinitionUpdate)
}

// validateStatus leaves out the spec, which a write of the status does not change and the rules do not look at.
func validateStatus(crd, old *apiextensionsv1.CustomResourceDefinition) field.ErrorList {
	return change(withoutSpec(crd), withoutSpec(old), validation.ValidateUpdateCustomResourceDefinitionStatus)
}

func withoutSpec(crd *apiextensionsv1.CustomResourceDefinition) *apiextensionsv1.CustomResourceDefinition {
	return &apiextensionsv1.CustomResourceDefinition{ObjectMeta: crd.ObjectMeta, Status: crd.Status}
}

// change validates an update by one of upstream's functions.
func change(crd, old *apiextensionsv1.CustomResourceDefinition,
	judge func(ctx context.Context, obj, old *upstream.CustomResourceDefinition) field.ErrorList,
) field.ErrorList {
	obj, err := internal(crd)
	if err != nil {
		return unparsable(err)
	}
	before, err := internal(old)
	if err != nil {
		return unparsable(err)
	}
	ctx := context.Background()
	errs := judge(ctx, obj, before)
	explainBudget(obj, errs)
	return without(errs,
		apivalidation.ValidateObjectMetaDeclaratively(ctx, operation.Update, &obj.ObjectMeta, &before.ObjectMeta, false,
			nil, field.NewPath("metadata"), true))
}

// without drops the errors that the registry reports itself: those of metadata.
func without(errs, reported field.ErrorList) field.ErrorList {
	known := make(map[string]bool, len(reported))
	for _, e := range reported {
		known[e.Error()] = true
	}
	return slices.DeleteFunc(errs, func(e *field.Error) bool { return known[e.Error()] })
}

// unparsable reports a malformed JSON value in a schema, which only a protobuf body can contain.
func unparsable(err error) field.ErrorList {
	return field.ErrorList{field.Invalid(field.NewPath("spec"), field.OmitValueType{}, err.Error())}
}
