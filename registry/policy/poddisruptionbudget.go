package policy

import (
	"context"
	"slices"

	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/registry/internal/check"
)

func podDisruptionBudgets() registry.Kind {
	parts := registry.Parts[*policyv1.PodDisruptionBudget]{
		Spec:   registry.PartOf(func(budget *policyv1.PodDisruptionBudget) *policyv1.PodDisruptionBudgetSpec { return &budget.Spec }),
		Status: registry.PartOf(func(budget *policyv1.PodDisruptionBudget) *policyv1.PodDisruptionBudgetStatus { return &budget.Status }),
	}
	return registry.Definition[*policyv1.PodDisruptionBudget]{
		Names: registry.Names{
			Kind: "PodDisruptionBudget", Plural: "poddisruptionbudgets", Singular: "poddisruptionbudget",
			Short: []string{"pdb"},
		},
		GroupVersion: policyv1.SchemeGroupVersion,
		Older:        olderBudgets(),
		Namespaced:   true,
		New:          func() *policyv1.PodDisruptionBudget { return &policyv1.PodDisruptionBudget{} },
		NewList:      func() runtime.Object { return &policyv1.PodDisruptionBudgetList{} },
		Rules: registry.Rules[*policyv1.PodDisruptionBudget]{
			AnyFinalizer: true,
			PrepareCreate: func(ctx context.Context, budget *policyv1.PodDisruptionBudget) {
				parts.PrepareCreate(ctx, budget)
				stripNewReservedKey(budget, nil)
			},
			PrepareUpdate: func(ctx context.Context, budget, old *policyv1.PodDisruptionBudget) {
				parts.PrepareUpdate(ctx, budget, old)
				stripNewReservedKey(budget, old)
			},
			Validate:          func(budget *policyv1.PodDisruptionBudget) field.ErrorList { return validateSpec(&budget.Spec, false) },
			ValidateUpdate:    validateUpdate,
			ValidateName:      registry.PathSegmentName,
			ConditionalUpdate: true,
		},
		Sub: registry.Subresources[*policyv1.PodDisruptionBudget]{
			Views: map[string]registry.View[*policyv1.PodDisruptionBudget]{"status": {
				PrepareUpdate: parts.PrepareStatus,
				ValidateUpdate: func(budget, _ *policyv1.PodDisruptionBudget) field.ErrorList {
					return validateStatus(&budget.Status, field.NewPath("status"))
				},
			}},
		},
		Columns: budgetColumns(),
	}.Kind()
}

// reservedKey is what upstream puts into selectors so that they mean the same in both versions: in v1beta1 an
// empty selector selects nothing, in v1 everything.
const reservedKey = "pdb.kubernetes.io/deprecated-v1beta1-empty-selector-match"

// matchNone returns the stored form of a selector that selects nothing.
func matchNone() *metav1.LabelSelector {
	return &metav1.LabelSelector{
		MatchExpressions: []metav1.LabelSelectorRequirement{{Key: reservedKey, Operator: metav1.LabelSelectorOpExists}},
	}
}

// stripNewReservedKey removes the reserved key from selectors that users write.
func stripNewReservedKey(budget, old *policyv1.PodDisruptionBudget) {
	selector := budget.Spec.Selector
	switch {
	case selector == nil || old != nil && equality.Semantic.DeepEqual(old.Spec.Selector, selector):
	case equality.Semantic.DeepEqual(selector, matchNone()):
	default:
		stripReservedKey(selector)
	}
}

func stripReservedKey(selector *metav1.LabelSelector) {
	selector.MatchExpressions = slices.DeleteFunc(selector.MatchExpressions,
		func(r metav1.LabelSelectorRequirement) bool { return r.Key == reservedKey })
}

func validateUpdate(budget, old *policyv1.PodDisruptionBudget) field.ErrorList {
	strict := metavalidation.LabelSelectorValidationOptions{}
	hadInvalid := len(metavalidation.ValidateLabelSelector(old.Spec.Selector, strict, nil)) > 0
	return validateSpec(&budget.Spec, hadInvalid)
}

// shownSpec is the form of a spec in errors.
type shownSpec struct {
	MinAvailable               *intstr.IntOrString
	Selector                   *metav1.LabelSelector
	MaxUnavailable             *intstr.IntOrString
	UnhealthyPodEvictionPolicy *policyv1.UnhealthyPodEvictionPolicyType
}

func validateSpec(spec *policyv1.PodDisruptionBudgetSpec, invalidValues bool) field.ErrorList {
	p := field.NewPath("spec")
	var errs field.ErrorList
	if spec.MinAvailable != nil && spec.MaxUnavailable != nil {
		errs = append(errs, field.Invalid(p, shownSpec(*spec), "minAvailable and maxUnavailable cannot be both set"))
	}
	errs = append(errs, validateAmount(p.Child("minAvailable"), spec.MinAvailable)...)
	errs = append(errs, validateAmount(p.Child("maxUnavailable"), spec.MaxUnavailable)...)
	errs = append(errs, metavalidation.ValidateLabelSelector(spec.Selector,
		metavalidation.LabelSelectorValidationOptions{AllowInvalidLabelValueInSelector: invalidValues}, p.Child("selector"))...)
	if policy := spec.UnhealthyPodEvictionPolicy; policy != nil {
		errs = append(errs, check.OneOf(p.Child("unhealthyPodEvictionPolicy"), *policy,
			policyv1.AlwaysAllow, policyv1.IfHealthyBudget)...)
	}
	return errs
}

func validateAmount(p *field.Path, amount *intstr.IntOrString) field.ErrorList {
	if amount == nil {
		return nil
	}
	return append(check.IntOrPercent(p, *amount), check.AtMost100Percent(p, *amount)...)
}

func validateStatus(status *policyv1.PodDisruptionBudgetStatus, p *field.Path) field.ErrorList {
	errs := metavalidation.ValidateConditions(status.Conditions, p.Child("conditions"))
	errs = append(errs, check.Nonnegative(p.Child("disruptionsAllowed"), status.DisruptionsAllowed)...)
	errs = append(errs, check.Nonnegative(p.Child("currentHealthy"), status.CurrentHealthy)...)
	errs = append(errs, check.Nonnegative(p.Child("desiredHealthy"), status.DesiredHealthy)...)
	return append(errs, check.Nonnegative(p.Child("expectedPods"), status.ExpectedPods)...)
}
