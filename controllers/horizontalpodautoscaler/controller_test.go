package horizontalpodautoscaler_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/client/faults"
	"github.com/keelson-dev/keelson/controllers/horizontalpodautoscaler"
)

var errFailing = errors.New("cannot tell")

func TestStatus(t *testing.T) {
	steps(t, horizontalpodautoscaler.Options{}, 2, 5, func(*hpa) {}, func(b *bench) {
		s := b.stored("web").Status
		if *s.ObservedGeneration != 1 || s.CurrentReplicas != 2 || s.DesiredReplicas != 5 || !s.LastScaleTime.Time.Equal(time.Now()) {
			b.Errorf("status %+v", s)
		}
		var order []string
		for _, c := range s.Conditions {
			order = append(order, fmt.Sprintf("%s %s", c.Type, c.Status))
			if !c.LastTransitionTime.Time.Equal(time.Now()) {
				b.Errorf("%s since %s", c.Type, c.LastTransitionTime)
			}
		}
		if got := strings.Join(order, ", "); got != "AbleToScale True, ScalingActive True, ScalingLimited False, ScaledToZero False" {
			b.Errorf("conditions %s", got)
		}
		b.wantCondition("web", autoscalingv2.ScaledToZero, "False NotScaledToZero: the HPA controller did not scale the workload to zero")
		since := time.Now()
		b.after(15 * time.Second)
		s = b.stored("web").Status
		if s.CurrentReplicas != 5 || s.DesiredReplicas != 5 || !s.LastScaleTime.Time.Equal(since) || !s.Conditions[0].LastTransitionTime.Time.Equal(since) {
			b.Errorf("status %+v", s)
		}
		b.api.Reset()
		b.after(15 * time.Second)
		if w := b.api.Writes(); len(w) > 0 {
			b.Errorf("wrote what did not change: %v", w)
		}
	})
}

// TestTargets: what cannot be scaled is reported, and tried again.
func TestTargets(t *testing.T) {
	const able = "False FailedGetScale: the HPA controller was unable to get the target's current scale: "
	for name, tt := range map[string]struct {
		to   autoscalingv2.CrossVersionObjectReference
		want string
	}{
		"unknown kind":  {autoscalingv2.CrossVersionObjectReference{APIVersion: "example.com/v1", Kind: "Shop", Name: "web"}, `no matches for kind "Shop" in group "example.com"`},
		"not there":     {autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "x"}, `deployments.apps "x" not found`},
		"first of many": {autoscalingv2.CrossVersionObjectReference{APIVersion: "example.com/v1", Kind: "Twice", Name: "x"}, `the server could not find the requested resource`},
	} {
		t.Run(name, func(t *testing.T) {
			steps(t, horizontalpodautoscaler.Options{}, 2, 5, func(a *hpa) { a.Spec.ScaleTargetRef = tt.to }, func(b *bench) {
				b.wantCondition("web", autoscalingv2.AbleToScale, able+tt.want)
				b.wantEvents("Warning FailedGetScale " + tt.want)
				b.after(15 * time.Second)
				b.wantEvents("Warning FailedGetScale " + tt.want)
				b.wantReplicas("web", 2)
				b.change("web", func(a *hpa) {
					a.Spec.ScaleTargetRef = autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "web"}
				})
				b.wantReplicas("web", 5) // at once
			})
		})
	}
	steps(t, horizontalpodautoscaler.Options{}, 2, 5, func(a *hpa) {
		a.Spec.ScaleTargetRef.APIVersion, a.Spec.ScaleTargetRef.Kind = "example.com/v1", "Twice" // whose second resource is that of Deployments
	}, func(b *bench) { b.wantReplicas("web", 5) })
}

// TestInvalidVersion: older servers accepted targets of versions that are none.
func TestInvalidVersion(t *testing.T) {
	b := &bench{old: func(a *hpa) { a.Spec.ScaleTargetRef.APIVersion = "a/b/c" }}
	run(t, b, func(b *bench) {
		b.deployment("web", 2)
		b.autoscaler("web", share)
	}, func(b *bench) {
		b.wantEvents("Warning FailedGetScale unexpected GroupVersion string: a/b/c")
		b.wantCondition("web", autoscalingv2.AbleToScale,
			"False FailedGetScale: the HPA controller was unable to get the target's current scale: unexpected GroupVersion string: a/b/c")
	})
}

func TestSelectors(t *testing.T) {
	selector := func(text string) func(*autoscalingv1.Scale) {
		return func(s *autoscalingv1.Scale) { s.Status.Selector = text }
	}
	const compute = "Warning FailedComputeMetricsReplicas "
	for name, tt := range map[string]struct {
		scale                      func(*autoscalingv1.Scale)
		reason, message, condition string
	}{
		"none": {selector(""), "SelectorRequired", "selector is required", "False InvalidSelector: the HPA target's scale is missing a selector"},
		"bad": {selector("a in"), "InvalidSelector", "couldn't convert selector into a corresponding internal selector object: unable to parse requirement: found '' expected: '('",
			"False InvalidSelector: couldn't convert selector into a corresponding internal selector object: unable to parse requirement: found '' expected: '('"},
	} {
		t.Run(name, func(t *testing.T) {
			run(t, &bench{scale: tt.scale}, func(b *bench) {
				b.deployment("web", 2)
				b.autoscaler("web", share)
			}, func(b *bench) {
				b.wantCondition("web", autoscalingv2.ScalingActive, tt.condition)
				b.wantEvents("Warning "+tt.reason+" "+tt.message, compute+tt.message)
				if s := b.stored("web").Status; s.CurrentReplicas != 2 || s.DesiredReplicas != 0 || s.CurrentMetrics != nil {
					b.Errorf("status %+v", s)
				}
			})
		})
	}
}

// TestOverlap: pods that two autoscalers select are scaled by neither, until one of the autoscalers goes.
func TestOverlap(t *testing.T) {
	run(t, &bench{}, func(b *bench) {
		b.deployment("web", 2)
		b.pods("web", 2)
		b.metrics.set(asked(5))
		b.autoscaler("web", share)
		b.autoscaler("other", share, func(a *hpa) { a.Spec.ScaleTargetRef.Name = "web" })
		b.autoscaler("third", share, func(a *hpa) { a.Spec.ScaleTargetRef.Name = "nothing" })
	}, func(b *bench) {
		b.after(time.Minute)
		b.become("web", 2)
		b.events.Take()
		b.after(15 * time.Second)
		const message = "pods by selector app=web are controlled by more than one HPA (e.g. [ns/other ns/web])"
		for _, name := range []string{"web", "other"} {
			b.wantCondition(name, autoscalingv2.ScalingActive, "False AmbiguousSelector: "+message)
		}
		b.wantReplicas("web", 2)
		got := b.events.Take()
		for _, event := range []string{"Warning AmbiguousSelector " + message, "Warning FailedComputeMetricsReplicas " + message} {
			if !slices.Contains(got, event) {
				b.Errorf("no event %q in %q", event, got)
			}
		}
		if err := b.api.Others.Delete(b.Context(), client.Target{Resource: autoscalers, Namespace: "ns", Name: "other"}, metav1.DeleteOptions{}); err != nil {
			b.Fatal(err)
		}
		b.after(15 * time.Second)
		b.wantReplicas("web", 5)
	})
}

// TestConflicts: a scale that others change at the same time is written over their change.
func TestConflicts(t *testing.T) {
	conflict := apierrors.NewConflict(schema.GroupResource{Group: "apps", Resource: "deployments"}, "web", errors.New("changed"))
	for name, tt := range map[string]struct {
		failures int
		err      error
		want     int32
	}{
		"four conflicts": {4, conflict, 5},
		"five conflicts": {5, conflict, 2},
		"another error":  {1, apierrors.NewInternalError(errors.New("broken")), 2},
	} {
		t.Run(name, func(t *testing.T) {
			b, tries := &bench{}, 0
			b.before = func(r faults.Request) error {
				if r.Verb == faults.Update && r.Target.Subresource == "scale" && tries < tt.failures {
					tries++
					return tt.err
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
				b.wantReplicas("web", tt.want)
				if tt.want == 5 {
					return
				}
				b.wantCondition("web", autoscalingv2.AbleToScale, "False FailedUpdateScale: the HPA controller was unable to update the target scale: "+tt.err.Error())
				const selector = "&LabelSelector{MatchLabels:map[string]string{a: b,},MatchExpressions:[]LabelSelectorRequirement{},}"
				b.wantEvents("Warning FailedRescale New size: 5; reason: external metric hits(" + selector + ") above target; error: " + tt.err.Error())
				if s := b.stored("web").Status; s.LastScaleTime != nil || s.DesiredReplicas != 0 || s.CurrentReplicas != 2 || len(s.CurrentMetrics) != 1 {
					b.Errorf("status %+v", s)
				}
				b.after(15 * time.Second)
				b.wantReplicas("web", 5)
			})
		})
	}
}

// TestStatusFails: the target is scaled, and the status is written the next time.
func TestStatusFails(t *testing.T) {
	b, failed := &bench{}, false
	b.before = func(r faults.Request) error {
		if r.Target.Subresource == "status" && !failed {
			failed = true
			return errFailing
		}
		return nil
	}
	run(t, b, func(b *bench) {
		b.deployment("web", 2)
		b.pods("web", 2)
		b.metrics.set(asked(5))
		b.autoscaler("web", share)
	}, func(b *bench) {
		b.wantReplicas("web", 5)
		got := b.events.Take()
		if len(got) != 2 || got[1] != "Warning FailedUpdateStatus cannot tell" {
			b.Errorf("events %q", got)
		}
		b.after(15 * time.Second)
		if s := b.stored("web").Status; s.CurrentReplicas != 5 {
			b.Errorf("status %+v", s)
		}
	})
}

// TestPeriod: an autoscaler is evaluated every 15 s, whatever is written to its status, and at once when its spec changes.
func TestPeriod(t *testing.T) {
	steps(t, horizontalpodautoscaler.Options{}, 2, 2, func(*hpa) {}, func(b *bench) {
		b.metrics.set(asked(5))
		b.after(5 * time.Second)
		a := b.stored("web").DeepCopy()
		a.Status.CurrentReplicas = 77
		if _, err := b.api.Others.Update(b.Context(), client.Target{Resource: autoscalers, Namespace: "ns", Name: "web", Subresource: "status"}, a, metav1.UpdateOptions{}); err != nil {
			b.Fatal(err)
		}
		b.after(9 * time.Second)
		b.wantReplicas("web", 2)
		b.after(time.Second)
		b.wantReplicas("web", 5)
		b.metrics.set(asked(7))
		b.after(7 * time.Second)
		b.wantReplicas("web", 5)
		b.change("web", func(a *hpa) { a.Spec.MaxReplicas = 99 })
		b.wantReplicas("web", 7)
	})
	steps(t, horizontalpodautoscaler.Options{Period: time.Minute}, 2, 2, func(*hpa) {}, func(b *bench) {
		b.metrics.set(asked(5))
		b.after(59 * time.Second)
		b.wantReplicas("web", 2)
		b.after(time.Second)
		b.wantReplicas("web", 5)
	})
}

// TestLags: the controller waits for its own writes, or it would take an old status for the present one.
func TestLags(t *testing.T) {
	steps(t, horizontalpodautoscaler.Options{}, 2, 2, func(*hpa) {}, func(b *bench) {
		b.source.Hold()
		b.metrics.set(asked(5))
		b.after(15 * time.Second) // writes a status that the cache does not get
		b.wantReplicas("web", 5)
		b.metrics.set(asked(7))
		b.after(time.Minute)
		b.wantReplicas("web", 5)
		b.source.Resume()
		b.after(15 * time.Second)
		b.wantReplicas("web", 7)
	})
}

// TestForgets: an autoscaler that is made anew knows nothing of the past of its predecessor.
func TestForgets(t *testing.T) {
	plain := func(a *hpa) { a.Spec.Behavior = nil }
	steps(t, horizontalpodautoscaler.Options{}, 2, 4, plain, func(b *bench) {
		b.wantReplicas("web", 4)
		if err := b.api.Others.Delete(b.Context(), client.Target{Resource: autoscalers, Namespace: "ns", Name: "web"}, metav1.DeleteOptions{}); err != nil {
			b.Fatal(err)
		}
		b.after(time.Second)
		b.become("web", 3)
		b.metrics.set(asked(1))
		b.autoscaler("web", share, plain)
		b.after(0)
		b.wantReplicas("web", 3) // not four
		b.wantLimits(downStabilized, within)
	})
}

func TestZero(t *testing.T) {
	zero := func(a *hpa) { a.Spec.MinReplicas, a.Spec.Metrics = new(int32(0)), []metric{object(value("1"))} }
	steps(t, horizontalpodautoscaler.Options{}, 2, 0, zero, func(b *bench) {
		b.wantReplicas("web", 0)
		b.wantCondition("web", autoscalingv2.ScaledToZero, "True ScaledToZero: the HPA controller scaled the workload to zero")
		b.after(15 * time.Second)
		b.wantReplicas("web", 0)
		b.metrics.set(func(s *scripted) { s.err = errFailing })
		b.after(15 * time.Second)
		b.wantReplicas("web", 0)
		b.wantCondition("web", autoscalingv2.ScalingActive, unable("FailedGetObjectMetric", "unable to get metric hits on Service ns/s: cannot tell"))
		b.metrics.set(func(s *scripted) { s.err = nil })
		b.metrics.set(asked(3))
		b.after(15 * time.Second)
		b.wantReplicas("web", 3)
		b.wantCondition("web", autoscalingv2.ScaledToZero, "False NotScaledToZero: the HPA controller did not scale the workload to zero")
		b.become("web", 0) // by a user
		b.after(30 * time.Second)
		b.wantReplicas("web", 0)
		b.wantCondition("web", autoscalingv2.ScalingActive, "False ScalingDisabled: scaling is disabled since the replica count of the target is zero")
		if s := b.stored("web").Status; s.DesiredReplicas != 0 || s.CurrentReplicas != 0 {
			b.Errorf("status %+v", s)
		}
	})
	// What was scaled to zero has the minimum again if that is raised.
	steps(t, horizontalpodautoscaler.Options{}, 2, 0, zero, func(b *bench) {
		b.wantReplicas("web", 0)
		b.events.Take()
		b.change("web", func(a *hpa) { a.Spec.MinReplicas = new(int32(2)) })
		b.after(15 * time.Second)
		b.wantReplicas("web", 2)
		b.wantEvents("Normal SuccessfulRescale New size: 2; reason: Current number of replicas below Spec.MinReplicas")
	})
	// Or more, if its metrics say so.
	steps(t, horizontalpodautoscaler.Options{}, 2, 0, zero, func(b *bench) {
		b.wantReplicas("web", 0)
		b.events.Take()
		b.metrics.set(asked(3))
		b.change("web", func(a *hpa) { a.Spec.MinReplicas = new(int32(2)) })
		b.after(15 * time.Second)
		b.wantReplicas("web", 3)
		b.wantEvents("Normal SuccessfulRescale New size: 3; reason: Service metric hits above target")
	})
	// Without such metrics it stays.
	steps(t, horizontalpodautoscaler.Options{}, 2, 0, zero, func(b *bench) {
		b.wantReplicas("web", 0)
		b.change("web", func(a *hpa) { a.Spec.MinReplicas, a.Spec.Metrics = new(int32(1)), []metric{cpu(utilization(50))} })
		b.metrics.set(func(s *scripted) { s.samples = used(500) })
		b.after(15 * time.Second)
		b.wantReplicas("web", 1)
	})
}

// TestSelectorsOfMetrics: metrics are asked with the selectors of pods and series.
func TestSelectorsOfMetrics(t *testing.T) {
	for want, m := range map[string]metric{
		"app=web": cpu(utilization(50)), "app=web a=b": podsMetric(average("1")), "a=b": object(value("1")),
	} {
		run(t, &bench{}, func(b *bench) {
			b.deployment("web", 2)
			b.autoscaler("web", metrics(m))
		}, func(b *bench) {
			b.metrics.set(func(s *scripted) {
				if s.selector != want {
					b.Errorf("asked for %q, want %q", s.selector, want)
				}
			})
		})
	}
}

// TestEvents: events are about the autoscaler in the version that the controller reads.
func TestEvents(t *testing.T) {
	steps(t, horizontalpodautoscaler.Options{}, 2, 5, func(*hpa) {}, func(b *bench) {
		all := b.events.Events()
		if len(all) != 1 {
			b.Fatalf("events %+v", all)
		}
		want := corev1.ObjectReference{
			APIVersion: "autoscaling/v2", Kind: "HorizontalPodAutoscaler", Namespace: "ns", Name: "web",
			UID: b.stored("web").UID, ResourceVersion: all[0].Regarding.ResourceVersion,
		}
		if all[0].Regarding != want {
			b.Errorf("about %+v, want %+v", all[0].Regarding, want)
		}
	})
}
