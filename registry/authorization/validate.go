package authorization

import (
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func validateSubjectAccessReview(review *authorizationv1.SubjectAccessReview) field.ErrorList {
	errs := validateSpec(review.Spec)
	return append(errs, emptyMeta(review.ObjectMeta, "must be empty")...)
}

func validateSelfSubjectAccessReview(review *authorizationv1.SelfSubjectAccessReview) field.ErrorList {
	errs := validateSubject(review.Spec.ResourceAttributes, review.Spec.NonResourceAttributes, nil)
	return append(errs, emptyMeta(review.ObjectMeta, "must be empty")...)
}

func validateLocalSubjectAccessReview(review *authorizationv1.LocalSubjectAccessReview) field.ErrorList {
	errs := validateSpec(review.Spec)
	meta := review.ObjectMeta
	meta.Namespace = ""
	if len(emptyMeta(meta, "")) > 0 {
		errs = append(errs, field.Invalid(field.NewPath("metadata"), review.ObjectMeta, "must be empty except for namespace"))
	}
	if r := review.Spec.ResourceAttributes; r != nil && r.Namespace != review.Namespace {
		errs = append(errs, field.Invalid(field.NewPath("spec.resourceAttributes.namespace"), r.Namespace, "must match metadata.namespace"))
	}
	if path := review.Spec.NonResourceAttributes; path != nil {
		errs = append(errs, field.Invalid(field.NewPath("spec.nonResourceAttributes"), shown(path), "disallowed on this kind of request"))
	}
	return errs
}

func validateSpec(spec authorizationv1.SubjectAccessReviewSpec) field.ErrorList {
	var errs field.ErrorList
	if spec.User == "" && len(spec.Groups) == 0 {
		errs = append(errs, field.Invalid(field.NewPath("spec", "user"), spec.User, "at least one of user or group must be specified"))
	}
	return validateSubject(spec.ResourceAttributes, spec.NonResourceAttributes, errs)
}

// validateSubject requires exactly one of resource and path; errors of others come between, in upstream's
// order.
func validateSubject(resource *authorizationv1.ResourceAttributes, path *authorizationv1.NonResourceAttributes, others field.ErrorList) field.ErrorList {
	var errs field.ErrorList
	if (resource == nil) == (path == nil) {
		errs = append(errs, field.Invalid(field.NewPath("spec"), shown(path), "exactly one of nonResourceAttributes or resourceAttributes must be specified"))
	}
	errs = append(errs, others...)
	if resource == nil {
		return errs
	}
	at := field.NewPath("spec.resourceAttributes")
	if s := resource.FieldSelector; s != nil {
		at := at.Child("fieldSelector")
		errs = append(errs, oneForm(at, s.RawSelector, len(s.Requirements))...)
		options := metav1validation.FieldSelectorValidationOptions{AllowUnknownOperatorInRequirement: true}
		for i, r := range s.Requirements {
			errs = append(errs, metav1validation.ValidateFieldSelectorRequirement(r, options, at.Child("requirements").Index(i))...)
		}
	}
	if s := resource.LabelSelector; s != nil {
		at := at.Child("labelSelector")
		errs = append(errs, oneForm(at, s.RawSelector, len(s.Requirements))...)
		options := metav1validation.LabelSelectorValidationOptions{AllowUnknownOperatorInRequirement: true}
		for i, r := range s.Requirements {
			errs = append(errs, metav1validation.ValidateLabelSelectorRequirement(r, options, at.Child("requirements").Index(i))...)
		}
	}
	return errs
}

// oneForm requires exactly one of a selector's two forms.
func oneForm(at *field.Path, raw string, requirements int) field.ErrorList {
	switch {
	case raw != "" && requirements > 0:
		return field.ErrorList{field.Invalid(at.Child("rawSelector"), raw, "may not specified at the same time as requirements")}
	case raw == "" && requirements == 0:
		return field.ErrorList{field.Required(at.Child("requirements"), "when "+at.String()+" is specified, requirements or rawSelector is required")}
	}
	return nil
}

// shown returns a path request as upstream's internal type prints it.
func shown(path *authorizationv1.NonResourceAttributes) any {
	if path == nil {
		return nil
	}
	return struct{ Path, Verb string }{path.Path, path.Verb}
}

func emptyMeta(meta metav1.ObjectMeta, message string) field.ErrorList {
	shown := meta
	meta.ManagedFields = nil
	if equality.Semantic.DeepEqual(metav1.ObjectMeta{}, meta) {
		return nil
	}
	return field.ErrorList{field.Invalid(field.NewPath("metadata"), shown, message)}
}
