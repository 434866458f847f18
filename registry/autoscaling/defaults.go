package autoscaling

import (
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
)

// setDefaults sets the defaults of v2. Annotations that stand for fields are only for v1.
func setDefaults(a *autoscalingv2.HorizontalPodAutoscaler) {
	dropCarried(a.Annotations)
	defaultMinimum(&a.Spec)
	defaultMetrics(&a.Spec)
	if b := a.Spec.Behavior; b != nil {
		b.ScaleUp = defaultRules(b.ScaleUp, new(int32(0)),
			autoscalingv2.HPAScalingPolicy{Type: autoscalingv2.PodsScalingPolicy, Value: 4, PeriodSeconds: 15},
			autoscalingv2.HPAScalingPolicy{Type: autoscalingv2.PercentScalingPolicy, Value: 100, PeriodSeconds: 15})
		// The controller's own setting is the default of the stabilization window for scaling down.
		b.ScaleDown = defaultRules(b.ScaleDown, nil,
			autoscalingv2.HPAScalingPolicy{Type: autoscalingv2.PercentScalingPolicy, Value: 100, PeriodSeconds: 15})
	}
}

// defaultMinimum sets the only default of v1 that does not depend on annotations.
func defaultMinimum(spec *autoscalingv2.HorizontalPodAutoscalerSpec) {
	if spec.MinReplicas == nil {
		spec.MinReplicas = new(int32(1))
	}
}

func defaultMetrics(spec *autoscalingv2.HorizontalPodAutoscalerSpec) {
	if len(spec.Metrics) == 0 {
		spec.Metrics = []autoscalingv2.MetricSpec{cpuUtilization(80)}
	}
}

// cpuUtilization is the metric that v1 has a field for.
func cpuUtilization(percent int32) autoscalingv2.MetricSpec {
	return autoscalingv2.MetricSpec{
		Type: autoscalingv2.ResourceMetricSourceType,
		Resource: &autoscalingv2.ResourceMetricSource{
			Name:   corev1.ResourceCPU,
			Target: autoscalingv2.MetricTarget{Type: autoscalingv2.UtilizationMetricType, AverageUtilization: &percent},
		},
	}
}

func defaultRules(r *autoscalingv2.HPAScalingRules, window *int32, policies ...autoscalingv2.HPAScalingPolicy) *autoscalingv2.HPAScalingRules {
	if r == nil {
		r = &autoscalingv2.HPAScalingRules{}
	}
	if r.StabilizationWindowSeconds == nil {
		r.StabilizationWindowSeconds = window
	}
	if r.SelectPolicy == nil {
		r.SelectPolicy = new(autoscalingv2.MaxChangePolicySelect)
	}
	if r.Policies == nil {
		r.Policies = policies
	}
	return r
}
