package batch

import (
	"fmt"
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-dev/keelson/registry/internal/check"
)

const (
	mostFailureRules      = 20
	mostExitCodes         = 255
	mostPatterns          = 20
	mostSuccessRules      = 20
	longestSuccessIndexes = 64 * 1024
)

// need adds to a missing value what it could be.
func need[T ~string](path *field.Path, value T, supported ...T) field.ErrorList {
	if value == "" {
		return field.ErrorList{field.Required(path, fmt.Sprintf("valid values: %q", supported))}
	}
	return check.OneOf(path, value, supported...)
}

func validateFailurePolicy(spec *batchv1.JobSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	rules := spec.PodFailurePolicy.Rules
	if len(rules) > mostFailureRules {
		errs = append(errs, field.TooMany(path.Child("rules"), len(rules), mostFailureRules))
	}
	for i := range rules {
		errs = append(errs, validateFailureRule(spec, &rules[i], path.Child("rules").Index(i))...)
	}
	return errs
}

func validateFailureRule(spec *batchv1.JobSpec, rule *batchv1.PodFailurePolicyRule, path *field.Path) field.ErrorList {
	errs := need(path.Child("action"), rule.Action, batchv1.PodFailurePolicyActionCount, batchv1.PodFailurePolicyActionFailIndex,
		batchv1.PodFailurePolicyActionFailJob, batchv1.PodFailurePolicyActionIgnore)
	if rule.Action == batchv1.PodFailurePolicyActionFailIndex && spec.BackoffLimitPerIndex == nil {
		errs = append(errs, field.Invalid(path.Child("action"), rule.Action, "requires the backoffLimitPerIndex to be set"))
	}
	byCode, byCondition := rule.OnExitCodes != nil, len(rule.OnPodConditions) > 0
	if byCode {
		errs = append(errs, validateExitCodes(rule.OnExitCodes, &spec.Template.Spec, path.Child("onExitCodes"))...)
	}
	if byCondition {
		errs = append(errs, validatePatterns(rule.OnPodConditions, path.Child("onPodConditions"))...)
	}
	switch {
	case byCode && byCondition:
		errs = append(errs, field.Invalid(path, field.OmitValueType{}, "specifying both OnExitCodes and OnPodConditions is not supported"))
	case !byCode && !byCondition:
		errs = append(errs, field.Invalid(path, field.OmitValueType{}, "specifying one of OnExitCodes and OnPodConditions is required"))
	}
	return errs
}

func validatePatterns(patterns []batchv1.PodFailurePolicyOnPodConditionsPattern, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if len(patterns) > mostPatterns {
		errs = append(errs, field.TooMany(path, len(patterns), mostPatterns))
	}
	for i, p := range patterns {
		errs = append(errs, check.QualifiedName(path.Index(i).Child("type"), string(p.Type))...)
		errs = append(errs, need(path.Index(i).Child("status"), p.Status, corev1.ConditionFalse, corev1.ConditionTrue, corev1.ConditionUnknown)...)
	}
	return errs
}

func validateExitCodes(r *batchv1.PodFailurePolicyOnExitCodesRequirement, pod *corev1.PodSpec, path *field.Path) field.ErrorList {
	errs := need(path.Child("operator"), r.Operator, batchv1.PodFailurePolicyOnExitCodesOpIn, batchv1.PodFailurePolicyOnExitCodesOpNotIn)
	if r.ContainerName != nil {
		named := func(c corev1.Container) bool { return c.Name == *r.ContainerName }
		if !slices.ContainsFunc(pod.Containers, named) && !slices.ContainsFunc(pod.InitContainers, named) {
			errs = append(errs, field.Invalid(path.Child("containerName"), *r.ContainerName, "must be one of the container or initContainer names in the pod template"))
		}
	}
	values := path.Child("values")
	if len(r.Values) == 0 {
		errs = append(errs, field.Invalid(values, r.Values, "at least one value is required"))
	} else if len(r.Values) > mostExitCodes {
		errs = append(errs, field.TooMany(values, len(r.Values), mostExitCodes))
	}
	seen := map[int32]bool{}
	for i, code := range r.Values {
		if code == 0 && r.Operator == batchv1.PodFailurePolicyOnExitCodesOpIn {
			errs = append(errs, field.Invalid(values.Index(i), code, "must not be 0 for the In operator"))
		}
		if seen[code] {
			errs = append(errs, field.Duplicate(values.Index(i), code))
		}
		seen[code] = true
	}
	if !slices.IsSorted(r.Values) {
		errs = append(errs, field.Invalid(values, r.Values, "must be ordered"))
	}
	return errs
}

func validateSuccessPolicy(spec *batchv1.JobSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	rules := spec.SuccessPolicy.Rules
	path = path.Child("rules")
	if len(rules) == 0 {
		errs = append(errs, field.Required(path, "at least one rules must be specified when the successPolicy is specified"))
	}
	if len(rules) > mostSuccessRules {
		errs = append(errs, field.TooMany(path, len(rules), mostSuccessRules))
	}
	for i := range rules {
		if rules[i].SucceededCount == nil && rules[i].SucceededIndexes == nil {
			errs = append(errs, field.Required(path.Index(i), "at least one of succeededCount or succeededIndexes must be specified"))
		}
		if spec.Completions != nil { // else they are required
			errs = append(errs, validateSuccessRule(&rules[i], *spec.Completions, path.Index(i))...)
		}
	}
	return errs
}

func validateSuccessRule(rule *batchv1.SuccessPolicyRule, completions int32, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	var listed int32
	if list := rule.SucceededIndexes; list != nil {
		if len(*list) > longestSuccessIndexes {
			errs = append(errs, field.TooLong(path.Child("succeededIndexes"), "", longestSuccessIndexes))
		}
		var err error
		if listed, err = countIndexes(*list, completions); err != nil {
			errs = append(errs, field.Invalid(path.Child("succeededIndexes"), *list, fmt.Sprintf("error parsing succeededIndexes: %s", err)))
		}
	}
	if n := rule.SucceededCount; n != nil {
		path = path.Child("succeededCount")
		errs = append(errs, check.Nonnegative(path, *n)...)
		if *n > completions {
			errs = append(errs, field.Invalid(path, *n, fmt.Sprintf("must be less than or equal to %d (the number of specified completions)", completions)))
		}
		if rule.SucceededIndexes != nil && *n > listed {
			errs = append(errs, field.Invalid(path, *n, fmt.Sprintf("must be less than or equal to %d (the number of indexes in the specified succeededIndexes field)", listed)))
		}
	}
	return errs
}
