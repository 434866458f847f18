package horizontalpodautoscaler

import (
	"context"
	"errors"
	"fmt"
	"time"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/controllers"
	"github.com/keelson-dev/keelson/events"
)

// evaluation is one evaluation of an autoscaler.
type evaluation struct {
	*Controller
	key        controllers.Key
	autoscaler *autoscalingv2.HorizontalPodAutoscaler // a copy, whose status is written
	before     *autoscalingv2.HorizontalPodAutoscalerStatus
	history    *history
}

// decision is how many replicas there shall be.
type decision struct {
	replicas int32
	rescale  bool
	reason   string // to rescale
	statuses []autoscalingv2.MetricStatus
	err      error // of metrics without which it was made
}

func (e *evaluation) run(ctx context.Context) error {
	t, err := e.target(ctx)
	if err != nil {
		e.event(corev1.EventTypeWarning, "FailedGetScale", errors.Unwrap(err).Error())
		e.condition(autoscalingv2.AbleToScale, corev1.ConditionFalse, "FailedGetScale",
			fmt.Sprintf("the HPA controller was unable to get the target's current scale: %v", errors.Unwrap(err)))
		return errors.Join(err, e.write(ctx))
	}
	e.condition(autoscalingv2.AbleToScale, corev1.ConditionTrue, "SucceededGetScale", "the HPA controller was able to get the target's current scale")
	current := t.scale.Spec.Replicas
	e.history.begin(current, time.Now())
	d, err := e.decide(ctx, t.scale)
	if err != nil {
		e.keep(current, d.statuses)
		written := e.write(ctx)
		e.event(corev1.EventTypeWarning, "FailedComputeMetricsReplicas", err.Error())
		return errors.Join(fmt.Errorf("failed to compute desired number of replicas based on listed metrics for %s: %w", e.reference(), err), written)
	}
	if d.rescale {
		if err := e.rescale(ctx, t, d); err != nil {
			e.keep(current, d.statuses)
			return errors.Join(fmt.Errorf("failed to rescale %s: %w", e.reference(), err), e.write(ctx))
		}
	} else {
		d.replicas = current
	}
	e.set(current, d.replicas, d.statuses)
	if d.rescale {
		e.autoscaler.Status.LastScaleTime = new(metav1.Now())
	}
	if err := e.write(ctx); err != nil {
		return err
	}
	return d.err
}

func (e *evaluation) reference() string {
	to := e.autoscaler.Spec.ScaleTargetRef
	return fmt.Sprintf("%s/%s/%s", to.Kind, e.autoscaler.Namespace, to.Name)
}

// decide decides by the metrics, unless the number of replicas must change anyway, or somebody has scaled to zero. An error
// means that the metrics do not say enough.
func (e *evaluation) decide(ctx context.Context, scale *autoscalingv1.Scale) (decision, error) {
	spec, current, least := &e.autoscaler.Spec, scale.Spec.Replicas, e.least()
	switch {
	case current == 0 && !e.wakes(least):
		e.condition(autoscalingv2.ScalingActive, corev1.ConditionFalse, "ScalingDisabled", "scaling is disabled since the replica count of the target is zero")
		return decision{}, nil
	case current > spec.MaxReplicas:
		return decision{replicas: spec.MaxReplicas, rescale: true, reason: "Current number of replicas above Spec.MaxReplicas"}, nil
	case current != 0 && current < least:
		return decision{replicas: least, rescale: true, reason: "Current number of replicas below Spec.MinReplicas"}, nil
	}
	p := e.propose(ctx, scale)
	d := decision{statuses: p.statuses, err: p.err}
	if !p.known {
		return d, p.err
	}
	if d.replicas = max(p.replicas, 0); d.replicas > current {
		d.reason = p.metric + " above target"
	} else if d.replicas < current {
		d.reason = "All metrics below target"
	}
	d.replicas = e.normalize(bounds{least: least, most: spec.MaxReplicas, current: current, now: time.Now()}, d.replicas)
	if current == 0 && d.replicas < least {
		d.replicas = least
		if d.reason == "" {
			d.reason = "Current number of replicas below Spec.MinReplicas"
		}
	}
	d.rescale = d.replicas != current
	return d, nil
}

// least is the lower bound.
func (e *evaluation) least() int32 {
	if n := e.autoscaler.Spec.MinReplicas; n != nil {
		return *n
	}
	return 1
}

// wakes reports whether a target without replicas is scaled up again: because this controller has scaled it down to zero.
func (e *evaluation) wakes(least int32) bool {
	for _, c := range e.autoscaler.Status.Conditions {
		if c.Type == autoscalingv2.ScaledToZero {
			return c.Status == corev1.ConditionTrue && (least != 0 || e.pastPods())
		}
	}
	return false
}

// pastPods reports whether there can be a value of a metric without a pod.
func (e *evaluation) pastPods() bool {
	for i := range e.autoscaler.Spec.Metrics {
		if t := e.autoscaler.Spec.Metrics[i].Type; t == autoscalingv2.ObjectMetricSourceType || t == autoscalingv2.ExternalMetricSourceType {
			return true
		}
	}
	return false
}

// normalize limits the number of replicas.
func (e *evaluation) normalize(b bounds, desired int32) int32 {
	var stable, out limited
	if behavior := e.autoscaler.Spec.Behavior; behavior == nil {
		stable = limited{
			e.history.stabilize(desired, b.now, e.options.Stabilization),
			"ScaleDownStabilized", "recent recommendations were higher than current one, applying the highest recent recommendation",
		}
		out = b.limit(stable.replicas)
	} else {
		stable = e.history.stabilizeBoth(b, desired, window(behavior.ScaleUp, 0), window(behavior.ScaleDown, e.options.Stabilization))
		out = e.history.limitRate(b, stable.replicas, behavior)
	}
	if stable.replicas == desired {
		stable.reason, stable.message = "ReadyForNewScale", "recommended size matches current size"
	}
	e.condition(autoscalingv2.AbleToScale, corev1.ConditionTrue, stable.reason, stable.message)
	status := corev1.ConditionTrue
	if out.replicas == stable.replicas {
		status = corev1.ConditionFalse
	}
	e.condition(autoscalingv2.ScalingLimited, status, out.reason, out.message)
	return out.replicas
}

// rescale scales the target.
func (e *evaluation) rescale(ctx context.Context, t *target, d decision) error {
	current := t.scale.Spec.Replicas
	if err := e.update(ctx, t, d.replicas); err != nil {
		e.event(corev1.EventTypeWarning, "FailedRescale", fmt.Sprintf("New size: %d; reason: %s; error: %v", d.replicas, d.reason, err))
		e.condition(autoscalingv2.AbleToScale, corev1.ConditionFalse, "FailedUpdateScale",
			fmt.Sprintf("the HPA controller was unable to update the target scale: %v", err))
		return err
	}
	e.condition(autoscalingv2.AbleToScale, corev1.ConditionTrue, "SucceededRescale",
		fmt.Sprintf("the HPA controller was able to update the target scale to %d", d.replicas))
	e.event(corev1.EventTypeNormal, "SuccessfulRescale", fmt.Sprintf("New size: %d; reason: %s", d.replicas, d.reason))
	if b := e.autoscaler.Spec.Behavior; b != nil {
		rules := b.ScaleDown
		if d.replicas > current {
			rules = b.ScaleUp
		}
		e.history.scaled(current, d.replicas, time.Now(), longest(rules))
	}
	if current > 0 && d.replicas == 0 && e.least() == 0 && e.pastPods() {
		e.condition(autoscalingv2.ScaledToZero, corev1.ConditionTrue, "ScaledToZero", "the HPA controller scaled the workload to zero")
	} else {
		e.condition(autoscalingv2.ScaledToZero, corev1.ConditionFalse, "NotScaledToZero", "the HPA controller did not scale the workload to zero")
	}
	return nil
}

// keep sets the status of an evaluation that decided nothing.
func (e *evaluation) keep(current int32, statuses []autoscalingv2.MetricStatus) {
	e.set(current, e.autoscaler.Status.DesiredReplicas, statuses)
}

func (e *evaluation) set(current, desired int32, statuses []autoscalingv2.MetricStatus) {
	s := &e.autoscaler.Status
	s.CurrentReplicas, s.DesiredReplicas, s.CurrentMetrics = current, desired, statuses
	s.ObservedGeneration = new(e.autoscaler.Generation)
}

// condition sets a condition.
func (e *evaluation) condition(kind autoscalingv2.HorizontalPodAutoscalerConditionType, status corev1.ConditionStatus, reason, message string) {
	list := &e.autoscaler.Status.Conditions
	for i := range *list {
		if c := &(*list)[i]; c.Type == kind {
			if c.Status != status {
				c.LastTransitionTime = metav1.Now()
			}
			c.Status, c.Reason, c.Message = status, reason, message
			return
		}
	}
	*list = append(*list, autoscalingv2.HorizontalPodAutoscalerCondition{
		Type: kind, Status: status, Reason: reason, Message: message, LastTransitionTime: metav1.Now(),
	})
}

func (e *evaluation) event(kind, reason, message string) {
	e.recorder.Record(events.Event{
		Regarding: events.About(autoscalingv2.SchemeGroupVersion.WithKind("HorizontalPodAutoscaler"), e.autoscaler),
		Type:      kind, Reason: reason, Message: message,
	})
}

// write writes the status if it has changed.
func (e *evaluation) write(ctx context.Context) error {
	if equality.Semantic.DeepEqual(e.before, &e.autoscaler.Status) {
		return nil
	}
	stored, err := client.As[*autoscalingv2.HorizontalPodAutoscaler](e.client.Update(ctx, client.Target{
		Resource:  autoscalingv2.SchemeGroupVersion.WithResource("horizontalpodautoscalers"),
		Namespace: e.autoscaler.Namespace, Name: e.autoscaler.Name, Subresource: "status",
	}, e.autoscaler, metav1.UpdateOptions{}))
	if err != nil {
		e.event(corev1.EventTypeWarning, "FailedUpdateStatus", err.Error())
		return fmt.Errorf("failed to update status for %s: %w", e.autoscaler.Name, err)
	}
	e.wrote(e.key, stored.ResourceVersion)
	return nil
}
