package autoscaling

import (
	"errors"
	"fmt"
	"slices"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/registry/internal/check"
)

// validate validates an autoscaler that replaces old, which is nil in a create.
func validate(a, old *autoscalingv2.HorizontalPodAutoscaler) field.ErrorList {
	spec, path := &a.Spec, field.NewPath("spec")
	errs, last := validateBounds(spec, old, path)
	errs = append(errs, validateReference(&spec.ScaleTargetRef, path.Child("scaleTargetRef"), scaleTargetVersions(spec, old))...)
	errs = append(errs, validateMetrics(spec, path.Child("metrics"), describedVersions(old))...)
	if b := spec.Behavior; b != nil {
		errs = append(errs, validateRules(b.ScaleUp, path.Child("behavior", "scaleUp"))...)
		errs = append(errs, validateRules(b.ScaleDown, path.Child("behavior", "scaleDown"))...)
	}
	return append(errs, last...)
}

// validateBounds validates the range of replicas. Upstream declares the limits of values that change, and reports them last.
func validateBounds(spec *autoscalingv2.HorizontalPodAutoscalerSpec, old *autoscalingv2.HorizontalPodAutoscaler, path *field.Path) (first, last field.ErrorList) {
	least, most := path.Child("minReplicas"), path.Child("maxReplicas")
	if n := spec.MinReplicas; n != nil && *n < 0 {
		err := field.Invalid(least, *n, "must be greater than or equal to 0")
		if old != nil && old.Spec.MinReplicas != nil && *old.Spec.MinReplicas == *n {
			first = append(first, err)
		} else {
			last = append(last, err)
		}
	}
	changed := old == nil || old.Spec.MaxReplicas != spec.MaxReplicas
	switch n := spec.MaxReplicas; {
	case n == 0 && changed:
		last = append(last, field.Required(most, ""))
	case n == 0:
		first = append(first, field.Required(most, "must be set and greater than 0"))
	case n < 0 && changed:
		last = append(last, field.Invalid(most, n, "must be greater than or equal to 1"))
	case n < 0:
		first = append(first, field.Invalid(most, n, "must be greater than or equal to 1"))
	}
	if n := spec.MinReplicas; n != nil && spec.MaxReplicas < *n {
		first = append(first, field.Invalid(most, spec.MaxReplicas, "must be greater than or equal to `minReplicas`"))
	}
	return first, last
}

// versions says which apiVersions a reference may have.
type versions struct {
	any       bool
	coreGroup bool // none is one of the core group
}

func scaleTargetVersions(spec *autoscalingv2.HorizontalPodAutoscalerSpec, old *autoscalingv2.HorizontalPodAutoscaler) versions {
	to := &spec.ScaleTargetRef
	if old != nil && old.Spec.ScaleTargetRef.APIVersion == to.APIVersion && old.Spec.ScaleTargetRef.Kind == to.Kind {
		return versions{any: true}
	}
	return versions{coreGroup: to.Kind == "ReplicationController"} // the only kind of the core group that can be scaled
}

// describedVersions lets an autoscaler that describes objects of invalid versions keep them.
func describedVersions(old *autoscalingv2.HorizontalPodAutoscaler) versions {
	out := versions{coreGroup: true}
	if old != nil {
		out.any = slices.ContainsFunc(old.Spec.Metrics, func(m autoscalingv2.MetricSpec) bool {
			return m.Type == autoscalingv2.ObjectMetricSourceType && m.Object != nil && out.check(m.Object.DescribedObject.APIVersion) != nil
		})
	}
	return out
}

func (v versions) check(apiVersion string) error {
	if v.any {
		return nil
	}
	gv, err := schema.ParseGroupVersion(apiVersion)
	if err == nil && !v.coreGroup && gv.Group == "" {
		err = errors.New("apiVersion must specify API group")
	}
	return err
}

func validateReference(ref *autoscalingv2.CrossVersionObjectReference, path *field.Path, allowed versions) field.ErrorList {
	errs := validateSegment(path.Child("kind"), ref.Kind, "")
	errs = append(errs, validateSegment(path.Child("name"), ref.Name, "")...)
	if err := allowed.check(ref.APIVersion); err != nil {
		errs = append(errs, field.Invalid(path.Child("apiVersion"), ref.APIVersion, err.Error()))
	}
	return errs
}

// validateSegment requires a name that can be part of a URL's path; missing explains the error if there is none.
func validateSegment(path *field.Path, name, missing string) field.ErrorList {
	if name == "" {
		return field.ErrorList{field.Required(path, missing)}
	}
	return check.Messages(path, name, registry.PathSegmentName(name, false))
}

func validateRules(r *autoscalingv2.HPAScalingRules, path *field.Path) field.ErrorList {
	if r == nil {
		return nil
	}
	var errs field.ErrorList
	const longestWindow = 3600
	if window := r.StabilizationWindowSeconds; window != nil {
		at := path.Child("stabilizationWindowSeconds")
		switch {
		case *window < 0:
			errs = append(errs, field.Invalid(at, *window, "must be greater than or equal to zero"))
		case *window > longestWindow:
			errs = append(errs, field.Invalid(at, *window, fmt.Sprintf("must be less than or equal to %d", longestWindow)))
		}
	}
	if r.SelectPolicy != nil {
		errs = append(errs, check.OneOf(path.Child("selectPolicy"), *r.SelectPolicy,
			autoscalingv2.DisabledPolicySelect, autoscalingv2.MaxChangePolicySelect, autoscalingv2.MinChangePolicySelect)...)
	}
	policies := path.Child("policies")
	if len(r.Policies) == 0 {
		errs = append(errs, field.Required(policies, "must specify at least one Policy"))
	}
	for i := range r.Policies {
		errs = append(errs, validatePolicy(&r.Policies[i], policies.Index(i))...)
	}
	if r.Tolerance != nil && r.Tolerance.Sign() < 0 {
		errs = append(errs, field.Invalid(path.Child("tolerance"), r.Tolerance.String(), apivalidation.IsNegativeErrorMsg))
	}
	return errs
}

func validatePolicy(p *autoscalingv2.HPAScalingPolicy, path *field.Path) field.ErrorList {
	const longestPeriod = 1800
	errs := check.OneOf(path.Child("type"), p.Type, autoscalingv2.PercentScalingPolicy, autoscalingv2.PodsScalingPolicy)
	if p.Value <= 0 {
		errs = append(errs, field.Invalid(path.Child("value"), p.Value, "must be greater than zero"))
	}
	switch period := path.Child("periodSeconds"); {
	case p.PeriodSeconds <= 0:
		errs = append(errs, field.Invalid(period, p.PeriodSeconds, "must be greater than zero"))
	case p.PeriodSeconds > longestPeriod:
		errs = append(errs, field.Invalid(period, p.PeriodSeconds, fmt.Sprintf("must be less than or equal to %d", longestPeriod)))
	}
	return errs
}

func validateStatus(a, _ *autoscalingv2.HorizontalPodAutoscaler) field.ErrorList {
	status, path := &a.Status, field.NewPath("status")
	var errs field.ErrorList
	for i := range status.Conditions {
		if g := status.Conditions[i].ObservedGeneration; g != nil {
			errs = append(errs, check.Nonnegative(path.Child("conditions").Index(i).Child("observedGeneration"), *g)...)
		}
	}
	errs = append(errs, check.Nonnegative(path.Child("currentReplicas"), status.CurrentReplicas)...)
	return append(errs, check.Nonnegative(path.Child("desiredReplicas"), status.DesiredReplicas)...)
}
