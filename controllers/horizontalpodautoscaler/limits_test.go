package horizontalpodautoscaler_test

import (
	"testing"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"

	"github.com/keelson-dev/keelson/controllers/horizontalpodautoscaler"
)

// An object's value of n thousand asks for n replicas, of any number of them.
func asked(n int64) func(*scripted) { return func(s *scripted) { s.value = n * 1000 } }

func share(a *hpa) { a.Spec.Metrics = []metric{object(average("1"))} }

// steps run an autoscaler of a Deployment whose replicas are there at once.
func steps(t *testing.T, o horizontalpodautoscaler.Options, from int32, ask int64, tune func(*hpa), test func(*bench)) {
	t.Helper()
	run(t, &bench{options: o}, func(b *bench) {
		b.deployment("web", from)
		b.pods("web", 1)
		b.metrics.set(asked(ask))
		b.autoscaler("web", share, tune)
	}, test)
}

func (b *bench) wantLimits(able, limited string) {
	b.Helper()
	b.wantCondition("web", autoscalingv2.AbleToScale, able)
	b.wantCondition("web", autoscalingv2.ScalingLimited, limited)
}

// The conditions.
const (
	within         = "False DesiredWithinRange: the desired count is within the acceptable range"
	tooMany        = "True TooManyReplicas: the desired replica count is more than the maximum replica count"
	tooFew         = "True TooFewReplicas: the desired replica count is less than the minimum replica count"
	tooFastUp      = "True ScaleUpLimit: the desired replica count is increasing faster than the maximum scale rate"
	tooFastDown    = "True ScaleDownLimit: the desired replica count is decreasing faster than the maximum scale rate"
	readyToScale   = "True ReadyForNewScale: recommended size matches current size"
	upStabilized   = "True ScaleUpStabilized: recent recommendations were lower than current one, applying the lowest recent recommendation"
	downStabilized = "True ScaleDownStabilized: recent recommendations were higher than current one, applying the highest recent recommendation"
)

func scaledTo(n string) string {
	return "True SucceededRescale: the HPA controller was able to update the target scale to " + n
}

// TestWithoutBehavior: replicas at most double, or become four, and fall to the highest recommendation of five minutes.
func TestWithoutBehavior(t *testing.T) {
	plain := func(a *hpa) { a.Spec.Behavior, a.Spec.MaxReplicas = nil, 20 }
	steps(t, horizontalpodautoscaler.Options{}, 1, 50, plain, func(b *bench) {
		for _, want := range []int32{4, 8, 16} {
			b.wantReplicas("web", want)
			b.wantCondition("web", autoscalingv2.ScalingLimited, tooFastUp)
			b.after(15 * time.Second)
		}
		b.wantReplicas("web", 20)
		b.wantLimits(scaledTo("20"), tooMany)
		b.after(15 * time.Second)
		b.wantLimits(readyToScale, tooMany)
		b.metrics.set(asked(12)) // the last recommendation of 50 was just made
		b.after(15 * time.Second)
		b.wantLimits(downStabilized, tooMany)
		b.metrics.set(asked(3))
		b.after(5*time.Minute - 15*time.Second)
		b.wantReplicas("web", 20)
		b.after(15 * time.Second) // now the highest of five minutes is 12
		b.wantReplicas("web", 12)
		b.wantLimits(scaledTo("12"), within)
		b.after(15 * time.Second)
		b.wantReplicas("web", 3)
		b.metrics.set(asked(0))
		b.after(6 * time.Minute)
		b.wantReplicas("web", 1)
		b.wantLimits(readyToScale, tooFew)
	})
}

// TestStabilization: what there is when the controller starts is a recommendation.
func TestStabilization(t *testing.T) {
	plain := func(a *hpa) { a.Spec.Behavior = nil }
	steps(t, horizontalpodautoscaler.Options{Stabilization: time.Minute}, 10, 2, plain, func(b *bench) {
		b.wantReplicas("web", 10)
		b.wantLimits(downStabilized, within)
		b.after(time.Minute)
		b.wantReplicas("web", 10)
		b.after(15 * time.Second)
		b.wantReplicas("web", 2)
	})
	steps(t, horizontalpodautoscaler.Options{Stabilization: 95*time.Second + time.Millisecond}, 10, 2, func(a *hpa) {
		a.Spec.Behavior.ScaleDown.StabilizationWindowSeconds = nil // that of the controller, in seconds
	}, func(b *bench) {
		b.after(90 * time.Second)
		b.wantReplicas("web", 10)
		b.wantLimits(downStabilized, within)
		b.after(15 * time.Second)
		b.wantReplicas("web", 2)
	})
}

func TestWindows(t *testing.T) {
	steps(t, horizontalpodautoscaler.Options{}, 2, 10, func(a *hpa) { a.Spec.Behavior.ScaleUp.StabilizationWindowSeconds = new(int32(60)) }, func(b *bench) {
		b.wantReplicas("web", 2)
		b.wantLimits(upStabilized, within)
		b.after(30 * time.Second)
		b.metrics.set(asked(5)) // for a moment
		b.after(15 * time.Second)
		b.metrics.set(asked(10))
		b.after(15 * time.Second)
		b.wantReplicas("web", 5)
		b.wantLimits(scaledTo("5"), within)
		b.after(45 * time.Second)
		b.wantReplicas("web", 10)
	})
	steps(t, horizontalpodautoscaler.Options{}, 10, 1, func(a *hpa) { a.Spec.Behavior.ScaleDown.StabilizationWindowSeconds = new(int32(60)) }, func(b *bench) {
		b.wantLimits(downStabilized, within)
		b.after(30 * time.Second)
		b.metrics.set(asked(6))
		b.after(15 * time.Second)
		b.metrics.set(asked(1))
		b.after(15 * time.Second)
		b.wantReplicas("web", 6)
		b.after(45 * time.Second)
		b.wantReplicas("web", 1)
	})
}

func TestBounds(t *testing.T) {
	bounds := func(least, most int32) func(*hpa) {
		return func(a *hpa) { a.Spec.MinReplicas, a.Spec.MaxReplicas = &least, most }
	}
	steps(t, horizontalpodautoscaler.Options{}, 5, 50, bounds(3, 8), func(b *bench) {
		b.wantReplicas("web", 8)
		b.wantLimits(scaledTo("8"), tooMany)
		b.wantEvents("Normal SuccessfulRescale New size: 8; reason: external metric hits(&LabelSelector{MatchLabels:map[string]string{a: b,},MatchExpressions:[]LabelSelectorRequirement{},}) above target")
		b.metrics.set(asked(1))
		b.after(15 * time.Second)
		b.wantReplicas("web", 3)
		b.wantLimits(scaledTo("3"), tooFew)
		b.wantEvents("Normal SuccessfulRescale New size: 3; reason: All metrics below target")
		b.after(15 * time.Second)
		b.wantLimits(readyToScale, tooFew)
		b.wantEvents()
	})
	// Outside its bounds, a target is scaled without asking for metrics.
	steps(t, horizontalpodautoscaler.Options{}, 20, 1, bounds(3, 8), func(b *bench) {
		b.wantReplicas("web", 8)
		b.wantEvents("Normal SuccessfulRescale New size: 8; reason: Current number of replicas above Spec.MaxReplicas")
		b.wantCondition("web", autoscalingv2.ScalingActive, "")
		if s := b.stored("web").Status; s.CurrentReplicas != 20 || s.DesiredReplicas != 8 || s.LastScaleTime == nil || !s.LastScaleTime.Time.Equal(time.Now()) || len(s.CurrentMetrics) != 0 {
			b.Errorf("status %+v", s)
		}
	})
	steps(t, horizontalpodautoscaler.Options{}, 1, 100, bounds(3, 8), func(b *bench) {
		b.wantReplicas("web", 3)
		b.wantEvents("Normal SuccessfulRescale New size: 3; reason: Current number of replicas below Spec.MinReplicas")
	})
}

func policies(p ...autoscalingv2.HPAScalingPolicy) []autoscalingv2.HPAScalingPolicy { return p }

func policy(kind autoscalingv2.HPAScalingPolicyType, value, period int32) autoscalingv2.HPAScalingPolicy {
	return autoscalingv2.HPAScalingPolicy{Type: kind, Value: value, PeriodSeconds: period}
}

// TestRates: policies count what was changed in their periods, and the one that is selected counts.
func TestRates(t *testing.T) {
	const pods, percent = autoscalingv2.PodsScalingPolicy, autoscalingv2.PercentScalingPolicy
	for name, tt := range map[string]struct {
		from   int32
		ask    int64
		choice autoscalingv2.ScalingPolicySelect
		list   []autoscalingv2.HPAScalingPolicy
		want   []int32 // every 15 s
		limit  string  // at the end
	}{
		"pods up":           {10, 50, "Max", policies(policy(pods, 3, 15)), []int32{13, 16, 19}, tooFastUp},
		"pods up, slowly":   {10, 50, "Max", policies(policy(pods, 3, 40)), []int32{13, 13, 13, 16, 16}, tooFastUp},
		"percent up":        {10, 50, "Max", policies(policy(percent, 25, 15)), []int32{13, 17, 22}, tooFastUp},
		"up by the most":    {10, 50, "Max", policies(policy(pods, 3, 15), policy(percent, 50, 15)), []int32{15, 23, 35}, tooFastUp},
		"up by the least":   {10, 50, "Min", policies(policy(percent, 50, 15), policy(pods, 3, 15)), []int32{13, 16, 19}, tooFastUp},
		"never up":          {10, 50, "Disabled", policies(policy(pods, 3, 15)), []int32{10, 10}, tooFastUp},
		"pods down":         {50, 1, "Max", policies(policy(pods, 3, 15)), []int32{47, 44, 41}, tooFastDown},
		"pods down, slowly": {50, 1, "Max", policies(policy(pods, 3, 40)), []int32{47, 47, 47, 44, 44}, tooFastDown},
		"percent down":      {50, 1, "Max", policies(policy(percent, 25, 15)), []int32{37, 27, 20}, tooFastDown},
		"down by the most":  {50, 1, "Max", policies(policy(pods, 3, 15), policy(percent, 50, 15)), []int32{25, 12, 6}, tooFastDown},
		"down by the least": {50, 1, "Min", policies(policy(percent, 50, 15), policy(pods, 3, 15)), []int32{47, 44, 41}, tooFastDown},
		"never down":        {50, 1, "Disabled", policies(policy(pods, 3, 15)), []int32{50, 50}, tooFastDown},
		"all the way down":  {5, 0, "Max", policies(policy(pods, 9, 15)), []int32{1}, tooFew},
		"all the way up":    {95, 200, "Max", policies(policy(pods, 9, 15)), []int32{100}, tooMany},
		"as far as allowed": {80, 100, "Max", policies(policy(pods, 20, 15)), []int32{100}, within},
		"down as asked":     {50, 48, "Max", policies(policy(pods, 9, 15)), []int32{50}, within}, // tolerated
		"down a little":     {50, 44, "Max", policies(policy(pods, 9, 15)), []int32{44}, within},
	} {
		t.Run(name, func(t *testing.T) {
			steps(t, horizontalpodautoscaler.Options{}, tt.from, tt.ask, func(a *hpa) {
				rules := &autoscalingv2.HPAScalingRules{StabilizationWindowSeconds: new(int32(0)), SelectPolicy: &tt.choice, Policies: tt.list}
				a.Spec.Behavior = &autoscalingv2.HorizontalPodAutoscalerBehavior{ScaleUp: rules, ScaleDown: rules}
			}, func(b *bench) {
				for i, want := range tt.want {
					if i > 0 {
						b.after(15 * time.Second)
					}
					b.wantReplicas("web", want)
				}
				b.wantCondition("web", autoscalingv2.ScalingLimited, tt.limit)
			})
		})
	}
}

// TestBothDirections: replicas that were added in a policy's period may be removed in addition to its own.
func TestBothDirections(t *testing.T) {
	rules := &autoscalingv2.HPAScalingRules{StabilizationWindowSeconds: new(int32(0)), Policies: policies(policy("Pods", 4, 60))}
	steps(t, horizontalpodautoscaler.Options{}, 10, 14, func(a *hpa) {
		a.Spec.Behavior = &autoscalingv2.HorizontalPodAutoscalerBehavior{ScaleUp: rules, ScaleDown: rules}
	}, func(b *bench) {
		b.wantReplicas("web", 14)
		b.become("web", 14)
		b.metrics.set(asked(1))
		b.after(15 * time.Second)
		b.wantReplicas("web", 6) // ten at the beginning of the period, less four
		b.metrics.set(asked(50))
		b.after(15 * time.Second)
		b.wantReplicas("web", 14)
	})
}

// TestChoosesLargest: of several metrics, the one that asks for most counts; without some, replicas only become more.
func TestChoosesLargest(t *testing.T) {
	both := metrics(object(average("1")), external(average("1")))
	steps(t, horizontalpodautoscaler.Options{}, 10, 5, both, func(b *bench) {
		b.metrics.set(func(s *scripted) { s.series = []int64{20000} })
		b.after(15 * time.Second)
		b.wantReplicas("web", 20)
		b.metrics.set(func(s *scripted) { s.series, s.err, s.failing = nil, errFailing, "queue" })
		b.events.Take()
		b.after(15 * time.Second)
		b.wantReplicas("web", 20)
		const selector = "&LabelSelector{MatchLabels:map[string]string{a: b,},MatchExpressions:[]LabelSelectorRequirement{},}"
		const message = "unable to get external metric ns/queue/" + selector + ": cannot tell"
		b.wantCondition("web", autoscalingv2.ScalingActive, unable("FailedGetExternalMetric", message))
		b.wantEvents("Warning FailedGetExternalMetric "+message,
			"Warning FailedComputeMetricsReplicas invalid metrics (1 invalid out of 2), first error is: failed to get queue external metric value: failed to get queue external metric: "+message)
		if s := b.stored("web").Status; len(s.CurrentMetrics) != 2 || s.CurrentMetrics[0].Object == nil || s.CurrentMetrics[1].Type != "" || s.DesiredReplicas != 20 {
			b.Errorf("status %+v", s)
		}
		b.metrics.set(asked(30))
		b.after(15 * time.Second)
		b.wantReplicas("web", 30)
		b.wantCondition("web", autoscalingv2.ScalingActive, counted+"external metric hits("+selector+")")
		b.wantEvents("Warning FailedGetExternalMetric "+message, "Normal SuccessfulRescale New size: 30; reason: external metric hits("+selector+") above target")
	})
}
