package horizontalpodautoscaler

import (
	"context"
	"errors"
	"fmt"
	"slices"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// proposal is how many replicas the metrics ask for, and which metric.
type proposal struct {
	known    bool // whether they say enough
	replicas int32
	metric   string
	statuses []autoscalingv2.MetricStatus
	err      error // of the first metric that has no value
}

// failure is why a metric says nothing. reason is that of the condition; the condition and the event have the inner error.
type failure struct {
	reason string
	inner  error
	err    error
}

// propose asks all metrics. As long as some fail, the others cannot scale down.
func (e *evaluation) propose(ctx context.Context, scale *autoscalingv1.Scale) proposal {
	list, selector, err := e.pods(scale.Status.Selector)
	if err != nil {
		return proposal{err: err}
	}
	specs := e.autoscaler.Spec.Metrics
	p := proposal{statuses: make([]autoscalingv2.MetricStatus, len(specs))}
	var first *failure
	failed := 0
	for i := range specs {
		q := question{
			evaluation: e, pods: list, selector: selector, tolerance: e.tolerance(),
			replicas: scale.Spec.Replicas, running: scale.Status.Replicas,
		}
		a, f := q.ask(ctx, &specs[i])
		if f != nil {
			e.event(corev1.EventTypeWarning, f.reason, f.inner.Error())
			if failed++; first == nil {
				first = f
			}
			continue
		}
		p.statuses[i] = a.status
		if p.replicas == 0 || a.replicas > p.replicas {
			p.replicas, p.metric = a.replicas, a.metric
		}
	}
	if first != nil {
		p.err = fmt.Errorf("invalid metrics (%d invalid out of %d), first error is: %w", failed, len(specs), first.err)
	}
	if failed >= len(specs) || failed > 0 && p.replicas < scale.Spec.Replicas {
		if first != nil {
			e.condition(autoscalingv2.ScalingActive, corev1.ConditionFalse, first.reason,
				fmt.Sprintf("the HPA was unable to compute the replica count: %v", first.inner))
		}
		return p
	}
	e.condition(autoscalingv2.ScalingActive, corev1.ConditionTrue, "ValidMetricFound",
		"the HPA was able to successfully calculate a replica count from "+p.metric)
	p.known = true
	return p
}

// pods returns the pods of the target, which no other autoscaler may scale.
func (e *evaluation) pods(text string) ([]*corev1.Pod, labels.Selector, error) {
	refuse := func(event, reason, message, condition string) ([]*corev1.Pod, labels.Selector, error) {
		e.event(corev1.EventTypeWarning, event, message)
		e.condition(autoscalingv2.ScalingActive, corev1.ConditionFalse, reason, condition)
		return nil, nil, errors.New(message)
	}
	if text == "" {
		return refuse("SelectorRequired", "InvalidSelector", "selector is required", "the HPA target's scale is missing a selector")
	}
	selector, err := labels.Parse(text)
	if err != nil {
		message := fmt.Sprintf("couldn't convert selector into a corresponding internal selector object: %v", err)
		return refuse("InvalidSelector", "InvalidSelector", message, message)
	}
	if !e.selectors.set(e.key, selector) {
		return nil, nil, fmt.Errorf("HPA %s/%s was deleted during reconciliation", e.key.Namespace, e.key.Name)
	}
	list := slices.DeleteFunc(slices.Clone(e.in.Pods.List(e.key.Namespace)), func(p *corev1.Pod) bool {
		return !selector.Matches(labels.Set(p.Labels))
	})
	if all := e.selectors.of(e.key.Namespace, list); len(all) > 1 {
		message := fmt.Sprintf("pods by selector %v are controlled by more than one HPA (e.g. %v)", text, all[:2])
		return refuse("AmbiguousSelector", "AmbiguousSelector", message, message)
	}
	return list, selector, nil
}

// tolerance is that of the autoscaler.
func (e *evaluation) tolerance() tolerance {
	t := tolerance{e.options.Tolerance, e.options.Tolerance}
	b := e.autoscaler.Spec.Behavior
	if b != nil && b.ScaleDown != nil && b.ScaleDown.Tolerance != nil {
		t.down = b.ScaleDown.Tolerance.AsApproximateFloat64()
	}
	if b != nil && b.ScaleUp != nil && b.ScaleUp.Tolerance != nil {
		t.up = b.ScaleUp.Tolerance.AsApproximateFloat64()
	}
	return t
}

// metricOf is a metric with the selector of its series.
func metricOf(id autoscalingv2.MetricIdentifier) (Metric, error) {
	selector, err := metav1.LabelSelectorAsSelector(id.Selector)
	return Metric{Name: id.Name, Selector: selector}, err
}
