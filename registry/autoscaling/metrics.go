package autoscaling

import (
	"slices"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-dev/keelson/podspec"
	"github.com/keelson-dev/keelson/registry/internal/check"
)

func validateMetrics(spec *autoscalingv2.HorizontalPodAutoscalerSpec, path *field.Path, described versions) field.ErrorList {
	var errs field.ErrorList
	known := false // whether there can be a metric without a pod
	for i := range spec.Metrics {
		m := &spec.Metrics[i]
		errs = append(errs, validateMetric(m, path.Index(i), described)...)
		known = known || m.Type == autoscalingv2.ObjectMetricSourceType || m.Type == autoscalingv2.ExternalMetricSourceType
	}
	if spec.MinReplicas != nil && *spec.MinReplicas == 0 && !known {
		errs = append(errs, field.Forbidden(path, "must specify at least one Object or External metric to support scaling to zero replicas"))
	}
	return errs
}

// source is one of the fields of a metric of which there is only one.
type source struct {
	kind     autoscalingv2.MetricSourceType
	name     string
	set      bool
	validate func(*field.Path) field.ErrorList
}

// sources returns them in the order in which upstream validates the first that is set.
func sources(m *autoscalingv2.MetricSpec, described versions) []source {
	return []source{
		{autoscalingv2.ObjectMetricSourceType, "object", m.Object != nil,
			func(p *field.Path) field.ErrorList { return validateObject(m.Object, p, described) }},
		{autoscalingv2.ExternalMetricSourceType, "external", m.External != nil,
			func(p *field.Path) field.ErrorList { return validateExternal(m.External, p) }},
		{autoscalingv2.PodsMetricSourceType, "pods", m.Pods != nil,
			func(p *field.Path) field.ErrorList { return validatePods(m.Pods, p) }},
		{autoscalingv2.ResourceMetricSourceType, "resource", m.Resource != nil,
			func(p *field.Path) field.ErrorList { return validateResource(m.Resource, p) }},
		{autoscalingv2.ContainerResourceMetricSourceType, "containerResource", m.ContainerResource != nil,
			func(p *field.Path) field.ErrorList { return validateContainerResource(m.ContainerResource, p) }},
	}
}

// validateMetric reports an unknown type twice, as upstream does.
func validateMetric(m *autoscalingv2.MetricSpec, path *field.Path, described versions) field.ErrorList {
	all := sources(m, described)
	at := slices.IndexFunc(all, func(s source) bool { return s.kind == m.Type })
	unsupported := field.NotSupported(path.Child("type"), m.Type, []autoscalingv2.MetricSourceType{
		autoscalingv2.ContainerResourceMetricSourceType, autoscalingv2.ExternalMetricSourceType, autoscalingv2.ObjectMetricSourceType,
		autoscalingv2.PodsMetricSourceType, autoscalingv2.ResourceMetricSourceType,
	})
	var errs field.ErrorList
	if m.Type == "" {
		errs = append(errs, field.Required(path.Child("type"), "must specify a metric source type"))
	}
	if at < 0 {
		errs = append(errs, unsupported)
	}
	if first := slices.IndexFunc(all, func(s source) bool { return s.set }); first >= 0 {
		errs = append(errs, all[first].validate(path.Child(all[first].name))...)
	}
	switch {
	case at < 0:
		errs = append(errs, unsupported)
	case !all[at].set:
		errs = append(errs, field.Required(path.Child(all[at].name), "must populate information for the given metric source"))
	}
	return append(errs, validateOnly(all, at, path)...)
}

// validateOnly forbids sources beside the one at an index if several are set. That a single one is not of the metric's type
// is only reported as the lack of the right one.
func validateOnly(all []source, at int, path *field.Path) field.ErrorList {
	var set, others []string
	for i, s := range all {
		if s.set {
			set = append(set, s.name)
			if i != at {
				others = append(others, s.name)
			}
		}
	}
	if len(set) == 1 {
		return nil
	}
	var errs field.ErrorList
	for _, name := range others {
		errs = append(errs, field.Forbidden(path.Child(name), "must populate the given metric source only"))
	}
	return errs
}

func validateObject(s *autoscalingv2.ObjectMetricSource, path *field.Path, described versions) field.ErrorList {
	errs := validateReference(&s.DescribedObject, path.Child("describedObject"), described)
	errs = append(errs, validateIdentifier(&s.Metric, path)...)
	errs = append(errs, validateTarget(&s.Target, path.Child("target"))...)
	if s.Target.Value == nil && s.Target.AverageValue == nil {
		errs = append(errs, field.Required(path.Child("target", "averageValue"), "must set either a target value or averageValue"))
	}
	return errs
}

func validateExternal(s *autoscalingv2.ExternalMetricSource, path *field.Path) field.ErrorList {
	errs := validateIdentifier(&s.Metric, path)
	errs = append(errs, validateTarget(&s.Target, path.Child("target"))...)
	switch {
	case s.Target.Value == nil && s.Target.AverageValue == nil:
		errs = append(errs, field.Required(path.Child("target", "averageValue"), "must set either a target value for metric or a per-pod target"))
	case s.Target.Value != nil && s.Target.AverageValue != nil:
		errs = append(errs, field.Forbidden(path.Child("target", "value"), "may not set both a target value for metric and a per-pod target"))
	}
	return errs
}

func validatePods(s *autoscalingv2.PodsMetricSource, path *field.Path) field.ErrorList {
	errs := validateIdentifier(&s.Metric, path)
	errs = append(errs, validateTarget(&s.Target, path.Child("target"))...)
	if s.Target.AverageValue == nil {
		errs = append(errs, field.Required(path.Child("target", "averageValue"), "must specify a positive target averageValue"))
	}
	return errs
}

func validateResource(s *autoscalingv2.ResourceMetricSource, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if s.Name == "" {
		errs = append(errs, field.Required(path.Child("name"), "must specify a resource name"))
	}
	return append(errs, validateUsage(&s.Target, path.Child("target"))...)
}

func validateContainerResource(s *autoscalingv2.ContainerResourceMetricSource, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if s.Name == "" {
		errs = append(errs, field.Required(path.Child("name"), "must specify a resource name"))
	} else {
		errs = append(errs, podspec.ValidateContainerResourceName(s.Name, path.Child("name"))...)
	}
	if s.Container == "" {
		errs = append(errs, field.Required(path.Child("container"), "must specify a container"))
	} else {
		errs = append(errs, check.DNSLabel(path.Child("container"), s.Container)...)
	}
	return append(errs, validateUsage(&s.Target, path.Child("target"))...)
}

// validateUsage validates the target of a resource.
func validateUsage(t *autoscalingv2.MetricTarget, path *field.Path) field.ErrorList {
	errs := validateTarget(t, path)
	switch {
	case t.AverageUtilization == nil && t.AverageValue == nil:
		errs = append(errs, field.Required(path.Child("averageUtilization"), "must set either a target raw value or a target utilization"))
	case t.AverageUtilization != nil && t.AverageValue != nil:
		errs = append(errs, field.Forbidden(path.Child("averageValue"), "may not set both a target raw value and a target utilization"))
	}
	return errs
}

func validateTarget(t *autoscalingv2.MetricTarget, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if t.Type == "" {
		errs = append(errs, field.Required(path.Child("type"), "must specify a metric target type"))
	}
	switch t.Type {
	case autoscalingv2.UtilizationMetricType, autoscalingv2.ValueMetricType, autoscalingv2.AverageValueMetricType:
	default:
		errs = append(errs, field.Invalid(path.Child("type"), t.Type, "must be either Utilization, Value, or AverageValue"))
	}
	if t.Value != nil && t.Value.Sign() != 1 {
		errs = append(errs, field.Invalid(path.Child("value"), t.Value, "must be positive"))
	}
	if t.AverageValue != nil && t.AverageValue.Sign() != 1 {
		errs = append(errs, field.Invalid(path.Child("averageValue"), t.AverageValue, "must be positive"))
	}
	if t.AverageUtilization != nil && *t.AverageUtilization < 1 {
		errs = append(errs, field.Invalid(path.Child("averageUtilization"), *t.AverageUtilization, "must be greater than 0"))
	}
	return errs
}

func validateIdentifier(id *autoscalingv2.MetricIdentifier, path *field.Path) field.ErrorList {
	return validateSegment(path.Child("metric", "name"), id.Name, "must specify a metric name")
}
