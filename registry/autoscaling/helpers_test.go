package autoscaling_test

import (
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

type (
	hpa    = autoscalingv2.HorizontalPodAutoscaler
	metric = autoscalingv2.MetricSpec
	target = autoscalingv2.MetricTarget
)

func quantity(s string) *resource.Quantity { return new(resource.MustParse(s)) }

func utilization(percent int32) target {
	return target{Type: autoscalingv2.UtilizationMetricType, AverageUtilization: &percent}
}

func average(s string) target {
	return target{Type: autoscalingv2.AverageValueMetricType, AverageValue: quantity(s)}
}

func value(s string) target {
	return target{Type: autoscalingv2.ValueMetricType, Value: quantity(s)}
}

func cpu(t target) metric {
	return metric{Type: "Resource", Resource: &autoscalingv2.ResourceMetricSource{Name: corev1.ResourceCPU, Target: t}}
}

func container(t target) metric {
	return metric{Type: "ContainerResource", ContainerResource: &autoscalingv2.ContainerResourceMetricSource{Name: corev1.ResourceMemory, Container: "app", Target: t}}
}

func pods(t target) metric {
	return metric{Type: "Pods", Pods: &autoscalingv2.PodsMetricSource{Metric: identifier("qps"), Target: t}}
}

func object(t target) metric {
	return metric{Type: "Object", Object: &autoscalingv2.ObjectMetricSource{
		DescribedObject: autoscalingv2.CrossVersionObjectReference{APIVersion: "networking.k8s.io/v1", Kind: "Ingress", Name: "web"},
		Metric:          identifier("hits"), Target: t,
	}}
}

func external(t target) metric {
	return metric{Type: "External", External: &autoscalingv2.ExternalMetricSource{Metric: identifier("queue"), Target: t}}
}

func identifier(name string) autoscalingv2.MetricIdentifier {
	return autoscalingv2.MetricIdentifier{Name: name, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}}
}

// autoscaler has all kinds of metrics.
func autoscaler() *hpa {
	return &hpa{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "ns", Generation: 3},
		Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
			ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "web"},
			MinReplicas:    new(int32(2)), MaxReplicas: 10,
			Metrics: []metric{
				object(value("2k")), external(average("30")), pods(average("1k")), container(average("1Gi")), cpu(utilization(60)),
			},
			Behavior: &autoscalingv2.HorizontalPodAutoscalerBehavior{
				ScaleUp:   rules(autoscalingv2.PodsScalingPolicy),
				ScaleDown: rules(autoscalingv2.PercentScalingPolicy),
			},
		},
	}
}

func rules(kind autoscalingv2.HPAScalingPolicyType) *autoscalingv2.HPAScalingRules {
	return &autoscalingv2.HPAScalingRules{
		StabilizationWindowSeconds: new(int32(60)), SelectPolicy: new(autoscalingv2.MinChangePolicySelect),
		Policies:  []autoscalingv2.HPAScalingPolicy{{Type: kind, Value: 5, PeriodSeconds: 30}},
		Tolerance: quantity("50m"),
	}
}
