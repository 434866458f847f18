package autoscaling

import (
	"encoding/json"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
)

// Annotations of v1 that stand for fields of v2.
const (
	carriedMetrics        = "autoscaling.alpha.kubernetes.io/metrics"
	carriedCurrentMetrics = "autoscaling.alpha.kubernetes.io/current-metrics"
	carriedConditions     = "autoscaling.alpha.kubernetes.io/conditions"
	carriedBehavior       = "autoscaling.alpha.kubernetes.io/behavior"
)

// dropCarried removes annotations that stand for fields, including those that no version uses any more.
func dropCarried(annotations map[string]string) {
	for _, key := range []string{
		carriedMetrics, carriedCurrentMetrics, carriedConditions, carriedBehavior,
		"autoscaling.alpha.kubernetes.io/scale-down-tolerance", "autoscaling.alpha.kubernetes.io/scale-up-tolerance",
	} {
		delete(annotations, key)
	}
}

// toV1 returns a stored autoscaler in v1.
func toV1(stored *autoscalingv2.HorizontalPodAutoscaler) (*autoscalingv1.HorizontalPodAutoscaler, error) {
	in := stored.DeepCopy()
	dropCarried(in.Annotations)
	out := &autoscalingv1.HorizontalPodAutoscaler{
		ObjectMeta: in.ObjectMeta,
		Spec: autoscalingv1.HorizontalPodAutoscalerSpec{
			ScaleTargetRef: autoscalingv1.CrossVersionObjectReference(in.Spec.ScaleTargetRef),
			MinReplicas:    in.Spec.MinReplicas, MaxReplicas: in.Spec.MaxReplicas,
		},
		Status: autoscalingv1.HorizontalPodAutoscalerStatus{
			ObservedGeneration: in.Status.ObservedGeneration, LastScaleTime: in.Status.LastScaleTime,
			CurrentReplicas: in.Status.CurrentReplicas, DesiredReplicas: in.Status.DesiredReplicas,
		},
	}
	var others []autoscalingv1.MetricSpec
	for i := range in.Spec.Metrics {
		m := &in.Spec.Metrics[i]
		switch {
		case !isCPUUtilization(m):
			others = append(others, metricToV1(m))
		case out.Spec.TargetCPUUtilizationPercentage == nil:
			out.Spec.TargetCPUUtilizationPercentage = m.Resource.Target.AverageUtilization
		}
	}
	current := make([]autoscalingv1.MetricStatus, 0, len(in.Status.CurrentMetrics))
	for i := range in.Status.CurrentMetrics {
		m := &in.Status.CurrentMetrics[i]
		current = append(current, currentToV1(m))
		if r := m.Resource; m.Type == autoscalingv2.ResourceMetricSourceType && r != nil && r.Name == corev1.ResourceCPU && r.Current.AverageUtilization != nil {
			out.Status.CurrentCPUUtilizationPercentage = r.Current.AverageUtilization
		}
	}
	return out, carry(out, others, current, in)
}

// isCPUUtilization reports whether v1 has a field for a metric; only the first of several is kept.
func isCPUUtilization(m *autoscalingv2.MetricSpec) bool {
	return m.Type == autoscalingv2.ResourceMetricSourceType && m.Resource != nil && m.Resource.Name == corev1.ResourceCPU &&
		m.Resource.Target.AverageUtilization != nil
}

// carry puts into annotations what v1 has no fields for.
func carry(out *autoscalingv1.HorizontalPodAutoscaler, others []autoscalingv1.MetricSpec, current []autoscalingv1.MetricStatus, in *autoscalingv2.HorizontalPodAutoscaler) error {
	values := map[string]any{}
	if len(others) > 0 {
		values[carriedMetrics] = others
	}
	if len(current) > 0 {
		values[carriedCurrentMetrics] = current
	}
	if in.Spec.Behavior != nil {
		values[carriedBehavior] = carriedOf(in.Spec.Behavior)
	}
	if len(in.Status.Conditions) > 0 {
		conditions := make([]autoscalingv1.HorizontalPodAutoscalerCondition, 0, len(in.Status.Conditions))
		for _, c := range in.Status.Conditions {
			conditions = append(conditions, autoscalingv1.HorizontalPodAutoscalerCondition{
				Type: autoscalingv1.HorizontalPodAutoscalerConditionType(c.Type), Status: c.Status, LastTransitionTime: c.LastTransitionTime,
				Reason: c.Reason, Message: c.Message, ObservedGeneration: c.ObservedGeneration,
			})
		}
		values[carriedConditions] = conditions
	}
	if len(values) > 0 && out.Annotations == nil {
		out.Annotations = map[string]string{}
	}
	for key, value := range values {
		data, err := json.Marshal(value)
		if err != nil {
			return err
		}
		out.Annotations[key] = string(data)
	}
	return nil
}

// fromV1 returns an autoscaler of v1 in its stored version. It ignores annotations that are not what toV1 writes.
func fromV1(sent *autoscalingv1.HorizontalPodAutoscaler) *autoscalingv2.HorizontalPodAutoscaler {
	in := sent.DeepCopy()
	out := &autoscalingv2.HorizontalPodAutoscaler{
		ObjectMeta: in.ObjectMeta,
		Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
			ScaleTargetRef: autoscalingv2.CrossVersionObjectReference(in.Spec.ScaleTargetRef),
			MinReplicas:    in.Spec.MinReplicas, MaxReplicas: in.Spec.MaxReplicas,
		},
		Status: autoscalingv2.HorizontalPodAutoscalerStatus{
			ObservedGeneration: in.Status.ObservedGeneration, LastScaleTime: in.Status.LastScaleTime,
			CurrentReplicas: in.Status.CurrentReplicas, DesiredReplicas: in.Status.DesiredReplicas,
		},
	}
	var others []autoscalingv1.MetricSpec
	if carried(in.Annotations, carriedMetrics, &others) {
		for i := range others {
			out.Spec.Metrics = append(out.Spec.Metrics, metricFromV1(&others[i]))
		}
	}
	if percent := in.Spec.TargetCPUUtilizationPercentage; percent != nil {
		out.Spec.Metrics = append(out.Spec.Metrics, cpuUtilization(*percent))
	}
	defaultMetrics(&out.Spec)
	var behavior carriedScaling
	if carried(in.Annotations, carriedBehavior, &behavior) && behavior != (carriedScaling{}) {
		out.Spec.Behavior = behavior.behavior()
	}
	out.Status.CurrentMetrics = currentFromV1s(in)
	var conditions []autoscalingv1.HorizontalPodAutoscalerCondition
	if carried(in.Annotations, carriedConditions, &conditions) {
		for _, c := range conditions {
			out.Status.Conditions = append(out.Status.Conditions, autoscalingv2.HorizontalPodAutoscalerCondition{
				Type: autoscalingv2.HorizontalPodAutoscalerConditionType(c.Type), Status: c.Status, LastTransitionTime: c.LastTransitionTime,
				Reason: c.Reason, Message: c.Message, ObservedGeneration: c.ObservedGeneration,
			})
		}
	}
	dropCarried(out.Annotations)
	return out
}

// currentFromV1s prefers the annotation to the field, which tells less.
func currentFromV1s(in *autoscalingv1.HorizontalPodAutoscaler) []autoscalingv2.MetricStatus {
	var current []autoscalingv1.MetricStatus
	if carried(in.Annotations, carriedCurrentMetrics, &current) {
		var out []autoscalingv2.MetricStatus
		for i := range current {
			out = append(out, currentFromV1(&current[i]))
		}
		return out
	}
	percent := in.Status.CurrentCPUUtilizationPercentage
	if percent == nil {
		return nil
	}
	return []autoscalingv2.MetricStatus{{
		Type: autoscalingv2.ResourceMetricSourceType,
		Resource: &autoscalingv2.ResourceMetricStatus{
			Name: corev1.ResourceCPU, Current: autoscalingv2.MetricValueStatus{AverageUtilization: percent},
		},
	}}
}

// carried decodes an annotation, and reports whether there is one that can be decoded.
func carried(annotations map[string]string, key string, into any) bool {
	value, ok := annotations[key]
	return ok && json.Unmarshal([]byte(value), into) == nil
}
