package horizontalpodautoscaler_test

import (
	"bytes"
	"log/slog"
	"math"
	"strings"
	"testing"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/client/faults"
	"github.com/keelson-dev/keelson/controllers/controllerstest"
	"github.com/keelson-dev/keelson/controllers/horizontalpodautoscaler"
)

func TestMoreSamples(t *testing.T) {
	fast := cpu(utilization(50))
	terminating := func(b *bench) {
		mixed(func(p *corev1.Pod) { p.Finalizers = []string{"example.com/hold"} })(b)
		if err := b.api.Others.Delete(b.Context(), client.Target{Resource: controllerstest.Pods(), Namespace: "ns", Name: "web-2"}, metav1.DeleteOptions{}); err != nil {
			b.Fatal(err)
		}
	}
	series := func(v ...int64) func(*scripted) { return func(s *scripted) { s.series = v } }
	evaluate(t, map[string]scene{
		"terminating":                     {metric: fast, pods: terminating, script: samples(1000, 1000, 9000), want: 4},
		"unready, the others as needed":   {metric: fast, pods: mixed(phase(corev1.PodPending)), script: samples(480, 480)},
		"unready long after its start":    {metric: fast, pods: mixed(started(6*time.Minute), ready("False", 6*time.Minute-100*time.Second)), script: samples(1000, 1000, 1000), want: 6},
		"series that take away":           {metric: external(value("100")), script: series(300000, -100000), want: 6},
		"more than can be counted":        {metric: external(value("1")), script: series(math.MaxInt64-1, 5), want: 100, status: `{"type":"External","external":{"metric":{"name":"queue","selector":{"matchLabels":{"a":"b"}}},"current":{"value":"9223372036854775807m"}}}`},
		"a share of more than is counted": {metric: external(average("1")), script: series(math.MaxInt64, 1), want: 100},
	})
}

// TestFromZero: without pods, the number follows from the value alone.
func TestFromZero(t *testing.T) {
	for name, tt := range map[string]struct {
		metric metric
		status string
	}{
		"object": {object(value("1")), `"current":{"value":"3"}`}, "external": {external(value("1")), `"current":{"value":"3"}`},
		"share": {external(average("1")), `"current":{"averageValue":"3"}`},
	} {
		t.Run(name, func(t *testing.T) {
			run(t, &bench{}, func(b *bench) {
				b.deployment("web", 0)
				b.metrics.set(asked(3))
				b.metrics.set(func(s *scripted) { s.series = []int64{3000} })
				b.autoscaler("web", metrics(tt.metric), func(a *hpa) {
					a.Spec.MinReplicas = new(int32(0))
					a.Status.Conditions = []autoscalingv2.HorizontalPodAutoscalerCondition{{Type: autoscalingv2.ScaledToZero, Status: corev1.ConditionTrue}}
				})
			}, func(b *bench) {
				b.wantReplicas("web", 3)
				if got := text(t, b.stored("web").Status.CurrentMetrics); !strings.Contains(got, tt.status) {
					t.Errorf("current metrics %s, want %s", got, tt.status)
				}
			})
		})
	}
}

// TestSeveralRates: what was changed within the longest period of its direction's policies is remembered.
func TestSeveralRates(t *testing.T) {
	two := &autoscalingv2.HPAScalingRules{
		StabilizationWindowSeconds: new(int32(0)), SelectPolicy: new(autoscalingv2.MinChangePolicySelect),
		Policies: policies(policy("Pods", 3, 15), policy("Pods", 5, 60)),
	}
	want := func(b *bench, all ...int32) {
		for i, n := range all {
			if i > 0 {
				b.after(15 * time.Second)
			}
			b.wantReplicas("web", n)
		}
	}
	steps(t, horizontalpodautoscaler.Options{}, 10, 50, func(a *hpa) { a.Spec.Behavior.ScaleUp = two },
		func(b *bench) { want(b, 13, 15, 15, 15, 18) })
	steps(t, horizontalpodautoscaler.Options{}, 50, 1, func(a *hpa) { a.Spec.Behavior.ScaleDown = two },
		func(b *bench) { want(b, 47, 45, 45, 45, 42) })
}

// TestOldBehavior: rules that a server stored before it gave them defaults allow nothing.
func TestOldBehavior(t *testing.T) {
	b := &bench{old: func(a *hpa) { a.Spec.Behavior = &autoscalingv2.HorizontalPodAutoscalerBehavior{} }}
	run(t, b, func(b *bench) {
		b.deployment("web", 5)
		b.pods("web", 5)
		b.metrics.set(asked(20))
		b.autoscaler("web", share)
	}, func(b *bench) {
		b.wantReplicas("web", 5)
		b.wantLimits(readyToScale, tooFastUp)
	})
}

// TestRealConflict: a user scales at the same moment.
func TestRealConflict(t *testing.T) {
	b, first := &bench{}, true
	b.before = func(r faults.Request) error {
		if r.Verb == faults.Update && r.Target.Subresource == "scale" && first {
			first = false
			b.become("web", 3)
		}
		return nil
	}
	run(t, b, func(b *bench) {
		b.deployment("web", 2)
		b.pods("web", 2)
		b.metrics.set(asked(5))
		b.autoscaler("web", share)
	}, func(b *bench) {
		b.after(time.Second)
		b.wantReplicas("web", 5)
		b.wantCondition("web", autoscalingv2.AbleToScale, scaledTo("5"))
	})
}

// TestSomeFail: that other metrics have no value does not matter if the replicas stay. When a condition changes, it says since
// when.
func TestSomeFail(t *testing.T) {
	steps(t, horizontalpodautoscaler.Options{}, 10, 10, metrics(external(average("1")), object(average("1"))), func(b *bench) {
		b.metrics.set(func(s *scripted) { s.err, s.failing = errFailing, "queue" })
		b.after(15 * time.Second)
		if got := b.condition("web", autoscalingv2.ScalingActive); !strings.HasPrefix(got, counted) {
			b.Errorf("condition %s", got)
		}
		b.metrics.set(asked(8))
		b.after(15 * time.Second)
		b.wantReplicas("web", 10)
		if got := b.condition("web", autoscalingv2.ScalingActive); !strings.HasPrefix(got, "False FailedGetExternalMetric") {
			b.Errorf("condition %s", got)
		}
		for _, c := range b.stored("web").Status.Conditions {
			if since := time.Since(c.LastTransitionTime.Time); (c.Type == autoscalingv2.ScalingActive) != (since == 0) {
				b.Errorf("%s changed %s ago", c.Type, since)
			}
		}
	})
}

// TestLogs: failures are logged, and nothing else.
func TestLogs(t *testing.T) {
	for name, tt := range map[string]struct {
		fail func(*bench)
		want string
	}{
		"nothing":    {func(*bench) {}, ""},
		"target":     {func(b *bench) { b.before = failing(faults.Get, "scale") }, "failed to query scale subresource for Deployment/ns/web: cannot tell"},
		"metrics":    {func(b *bench) { b.metrics.err = errFailing }, "failed to compute desired number of replicas based on listed metrics for Deployment/ns/web: invalid metrics (2 invalid out of 2), first error is: "},
		"one metric": {func(b *bench) { b.metrics.err, b.metrics.failing = errFailing, "queue" }, "invalid metrics (1 invalid out of 2), first error is: "},
		"scaling":    {func(b *bench) { b.before = failing(faults.Update, "scale") }, "failed to rescale Deployment/ns/web: cannot tell"},
		"status":     {func(b *bench) { b.before = failing(faults.Update, "status") }, "failed to update status for web: cannot tell"},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			b := &bench{options: horizontalpodautoscaler.Options{Logger: slog.New(slog.NewTextHandler(&out, nil))}}
			run(t, b, func(b *bench) {
				b.deployment("web", 2)
				b.pods("web", 2)
				b.metrics.value, b.metrics.series = 5000, []int64{1}
				b.autoscaler("web", metrics(external(average("1")), object(average("1"))))
				tt.fail(b)
			}, func(*bench) {})
			if got := out.String(); !strings.Contains(got, tt.want) || tt.want == "" && got != "" || tt.want != "" && !strings.Contains(got, "autoscaler=ns/web") {
				t.Errorf("logged %s, want %s", got, tt.want)
			}
		})
	}
}

func failing(verb, subresource string) func(faults.Request) error {
	return func(r faults.Request) error {
		if r.Verb == verb && r.Target.Subresource == subresource {
			return errFailing
		}
		return nil
	}
}
