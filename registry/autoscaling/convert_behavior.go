package autoscaling

import (
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"k8s.io/apimachinery/pkg/api/resource"
)

// carriedScaling is a behavior in an annotation. Upstream encodes a type without field tags there.
type carriedScaling struct {
	ScaleUp, ScaleDown *carriedRules
}

type carriedRules struct {
	StabilizationWindowSeconds *int32
	SelectPolicy               *autoscalingv2.ScalingPolicySelect
	Policies                   []carriedPolicy
	Tolerance                  *resource.Quantity
}

type carriedPolicy struct {
	Type          autoscalingv2.HPAScalingPolicyType
	Value         int32
	PeriodSeconds int32
}

func carriedOf(b *autoscalingv2.HorizontalPodAutoscalerBehavior) carriedScaling {
	return carriedScaling{ScaleUp: carriedRulesOf(b.ScaleUp), ScaleDown: carriedRulesOf(b.ScaleDown)}
}

func carriedRulesOf(r *autoscalingv2.HPAScalingRules) *carriedRules {
	if r == nil {
		return nil
	}
	out := &carriedRules{StabilizationWindowSeconds: r.StabilizationWindowSeconds, SelectPolicy: r.SelectPolicy, Tolerance: r.Tolerance}
	if r.Policies != nil {
		out.Policies = make([]carriedPolicy, 0, len(r.Policies))
	}
	for _, p := range r.Policies {
		out.Policies = append(out.Policies, carriedPolicy(p))
	}
	return out
}

func (c carriedScaling) behavior() *autoscalingv2.HorizontalPodAutoscalerBehavior {
	return &autoscalingv2.HorizontalPodAutoscalerBehavior{ScaleUp: c.ScaleUp.rules(), ScaleDown: c.ScaleDown.rules()}
}

func (c *carriedRules) rules() *autoscalingv2.HPAScalingRules {
	if c == nil {
		return nil
	}
	out := &autoscalingv2.HPAScalingRules{StabilizationWindowSeconds: c.StabilizationWindowSeconds, SelectPolicy: c.SelectPolicy, Tolerance: c.Tolerance}
	if c.Policies != nil {
		out.Policies = make([]autoscalingv2.HPAScalingPolicy, 0, len(c.Policies))
	}
	for _, p := range c.Policies {
		out.Policies = append(out.Policies, autoscalingv2.HPAScalingPolicy(p))
	}
	return out
}
