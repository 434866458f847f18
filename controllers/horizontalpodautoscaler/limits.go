package horizontalpodautoscaler

import (
	"math"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
)

// bounds are what limits the number of replicas, and when.
type bounds struct {
	least, most int32
	current     int32
	now         time.Time
}

// limited is a number of replicas after one of the limits, and why it is what it is.
type limited struct {
	replicas        int32
	reason, message string
}

func withinRange(replicas int32) limited {
	return limited{replicas, "DesiredWithinRange", "the desired count is within the acceptable range"}
}

func tooMany(most int32) limited {
	return limited{most, "TooManyReplicas", "the desired replica count is more than the maximum replica count"}
}

func tooFew(least int32) limited {
	return limited{least, "TooFewReplicas", "the desired replica count is less than the minimum replica count"}
}

func tooFast(replicas int32, up bool) limited {
	if up {
		return limited{replicas, "ScaleUpLimit", "the desired replica count is increasing faster than the maximum scale rate"}
	}
	return limited{replicas, "ScaleDownLimit", "the desired replica count is decreasing faster than the maximum scale rate"}
}

// stabilize returns the highest recent recommendation, which may be the present one, for autoscalers without a behavior.
func (h *history) stabilize(desired int32, now time.Time, window time.Duration) int32 {
	out := desired
	for _, r := range h.recommendations {
		if !r.at.Before(now.Add(-window)) {
			out = max(out, r.replicas)
		}
	}
	h.recommend(desired, now, now.Add(-window))
	return out
}

// limit keeps replicas in the range of an autoscaler without a behavior, and lets it at most double what there is, or
// start four.
func (b bounds) limit(desired int32) limited {
	upper := tooMany(b.most)
	if fastest := int32(max(min(2*int64(b.current), math.MaxInt32), 4)); b.most > fastest {
		upper = tooFast(fastest, true)
	}
	switch {
	case desired < b.least:
		return tooFew(b.least)
	case desired > upper.replicas:
		return upper
	}
	return withinRange(desired)
}

// stabilizeBoth keeps the change within what was recommended in the windows of a behavior: not more than the lowest
// recommendation in that for scaling up, not less than the highest in that for scaling down.
func (h *history) stabilizeBoth(b bounds, desired int32, up, down time.Duration) limited {
	sinceUp, sinceDown := b.now.Add(-up), b.now.Add(-down)
	lowest, highest := desired, desired
	for _, r := range h.recommendations {
		if r.at.After(sinceUp) {
			lowest = min(lowest, r.replicas)
		}
		if r.at.After(sinceDown) {
			highest = max(highest, r.replicas)
		}
	}
	h.recommend(desired, b.now, b.now.Add(-max(up, down)))
	out := limited{min(max(b.current, lowest), highest),
		"ScaleUpStabilized", "recent recommendations were lower than current one, applying the lowest recent recommendation"}
	if desired < b.current {
		out.reason = "ScaleDownStabilized"
		out.message = "recent recommendations were higher than current one, applying the highest recent recommendation"
	}
	return out
}

// limitRate keeps replicas in the range of an autoscaler, and lets them change only as fast as its behavior allows.
func (h *history) limitRate(b bounds, desired int32, behavior *autoscalingv2.HorizontalPodAutoscalerBehavior) limited {
	switch {
	case desired > b.current:
		upper := tooMany(b.most)
		if fastest := max(h.fastestUp(b, behavior.ScaleUp), b.current); b.most > fastest {
			upper = tooFast(fastest, true)
		}
		if desired > upper.replicas {
			return upper
		}
	case desired < b.current:
		lower := tooFew(b.least)
		if fastest := min(h.fastestDown(b, behavior.ScaleDown), b.current); b.least < fastest {
			lower = tooFast(fastest, false)
		}
		if desired < lower.replicas {
			return lower
		}
	}
	return withinRange(desired)
}

// fastestUp returns how many replicas there may be at most by the policies for scaling up.
func (h *history) fastestUp(b bounds, r *autoscalingv2.HPAScalingRules) int32 {
	choice := selectPolicy(r)
	if choice == autoscalingv2.DisabledPolicySelect {
		return b.current
	}
	out, better := int32(math.MinInt32), func(x, y int32) int32 { return max(x, y) }
	if choice == autoscalingv2.MinChangePolicySelect {
		out, better = math.MaxInt32, func(x, y int32) int32 { return min(x, y) }
	}
	for _, p := range policies(r) {
		start := h.start(b.current, b.now, seconds(p.PeriodSeconds))
		switch p.Type {
		case autoscalingv2.PodsScalingPolicy:
			out = better(out, clamp(float64(start)+float64(p.Value)))
		case autoscalingv2.PercentScalingPolicy: // rounded up, or few replicas would never become more
			out = better(out, clamp(math.Ceil(float64(start)*(1+float64(p.Value)/100))))
		}
	}
	return out
}

// fastestDown returns how many replicas there must be at least by the policies for scaling down.
func (h *history) fastestDown(b bounds, r *autoscalingv2.HPAScalingRules) int32 {
	choice := selectPolicy(r)
	if choice == autoscalingv2.DisabledPolicySelect {
		return b.current
	}
	out, better := int32(math.MaxInt32), func(x, y int32) int32 { return min(x, y) }
	if choice == autoscalingv2.MinChangePolicySelect {
		out, better = math.MinInt32, func(x, y int32) int32 { return max(x, y) }
	}
	for _, p := range policies(r) {
		start := h.start(b.current, b.now, seconds(p.PeriodSeconds))
		switch p.Type {
		case autoscalingv2.PodsScalingPolicy:
			out = better(out, clamp(float64(start)-float64(p.Value)))
		case autoscalingv2.PercentScalingPolicy:
			out = better(out, clamp(float64(start)*(1-float64(p.Value)/100)))
		}
	}
	return out
}

// selectPolicy is that of rules, which a server may have stored before it gave them defaults.
func selectPolicy(r *autoscalingv2.HPAScalingRules) autoscalingv2.ScalingPolicySelect {
	if r == nil || r.SelectPolicy == nil {
		return autoscalingv2.MaxChangePolicySelect
	}
	return *r.SelectPolicy
}

func policies(r *autoscalingv2.HPAScalingRules) []autoscalingv2.HPAScalingPolicy {
	if r == nil {
		return nil
	}
	return r.Policies
}

// longest returns the longest period of a policy.
func longest(r *autoscalingv2.HPAScalingRules) time.Duration {
	var out int32
	for _, p := range policies(r) {
		out = max(out, p.PeriodSeconds)
	}
	return seconds(out)
}

// window is the stabilization window of rules, or the usual one.
func window(r *autoscalingv2.HPAScalingRules, usual time.Duration) time.Duration {
	if r == nil || r.StabilizationWindowSeconds == nil {
		return usual.Truncate(time.Second)
	}
	return seconds(*r.StabilizationWindowSeconds)
}

func seconds(n int32) time.Duration { return time.Duration(n) * time.Second }

// clamp truncates to a number of replicas.
func clamp(n float64) int32 {
	return int32(max(min(n, math.MaxInt32), math.MinInt32))
}
