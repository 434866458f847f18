package horizontalpodautoscaler

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/labels"
)

// question is how many replicas a metric asks for.
type question struct {
	*evaluation
	pods     []*corev1.Pod
	selector labels.Selector // of the pods
	tolerance
	replicas int32 // of the target's spec
	running  int32 // of its status
}

// answer is how many replicas a metric asks for, and the value that it has.
type answer struct {
	replicas int32
	metric   string // its description
	status   autoscalingv2.MetricStatus
}

// ask asks a metric.
func (q *question) ask(ctx context.Context, m *autoscalingv2.MetricSpec) (answer, *failure) {
	fail := func(reason, what string, err error) (answer, *failure) {
		return answer{}, &failure{reason, err, fmt.Errorf("failed to get %s metric value: %w", what, err)}
	}
	switch m.Type {
	case autoscalingv2.ObjectMetricSourceType:
		a, told, err := q.object(ctx, m.Object)
		if err != nil {
			return answer{}, &failure{"FailedGetObjectMetric", told, fmt.Errorf("failed to get object metric value: %w", err)}
		}
		return a, nil
	case autoscalingv2.PodsMetricSourceType:
		a, err := q.podsMetric(ctx, m.Pods)
		if err != nil {
			return fail("FailedGetPodsMetric", "pods", err)
		}
		return a, nil
	case autoscalingv2.ResourceMetricSourceType:
		a, err := q.resource(ctx, Resource{Name: m.Resource.Name}, &m.Resource.Target)
		if err != nil {
			return fail("FailedGetResourceMetric", string(m.Resource.Name)+" resource", err)
		}
		a.status = autoscalingv2.MetricStatus{Type: m.Type, Resource: &autoscalingv2.ResourceMetricStatus{
			Name: m.Resource.Name, Current: a.status.Resource.Current,
		}}
		return a, nil
	case autoscalingv2.ContainerResourceMetricSourceType:
		of := m.ContainerResource
		a, err := q.resource(ctx, Resource{Name: of.Name, Container: of.Container}, &of.Target)
		if err != nil {
			return fail("FailedGetContainerResourceMetric", of.Container+" container", err)
		}
		a.status = autoscalingv2.MetricStatus{Type: m.Type, ContainerResource: &autoscalingv2.ContainerResourceMetricStatus{
			Name: of.Name, Container: of.Container, Current: a.status.Resource.Current,
		}}
		return a, nil
	case autoscalingv2.ExternalMetricSourceType:
		a, told, err := q.external(ctx, m.External)
		if err != nil {
			return answer{}, &failure{"FailedGetExternalMetric", told,
				fmt.Errorf("failed to get %s external metric value: %w", m.External.Metric.Name, err)}
		}
		return a, nil
	}
	err := fmt.Errorf("unknown metric source type %q", string(m.Type))
	return answer{}, &failure{"InvalidMetricSourceType", err, err}
}

// judge judges samples of the pods.
func (q *question) judge(samples map[string]Sample, of corev1.ResourceName) *judgment {
	return &judgment{
		pods: q.pods, samples: samples, current: q.replicas, tolerance: q.tolerance, resource: of,
		now: time.Now(), cpuInitialization: q.options.CPUInitialization, initialReadiness: q.options.InitialReadiness,
	}
}

// resource answers in the status of a resource of all containers.
func (q *question) resource(ctx context.Context, r Resource, t *autoscalingv2.MetricTarget) (answer, error) {
	what := "utilization"
	switch {
	case t.AverageValue != nil:
		what = "usage"
	case t.AverageUtilization == nil:
		return answer{}, errors.New("invalid resource metric source: neither an average utilization target nor an average value (usage) target was set")
	}
	n, use, err := q.resourceReplicas(ctx, r, t)
	if err != nil {
		return answer{}, fmt.Errorf("failed to get %s %s: %w", r.Name, what, err)
	}
	current := autoscalingv2.MetricValueStatus{AverageValue: resource.NewMilliQuantity(use.average, resource.DecimalSI)}
	if r.Name == corev1.ResourceMemory {
		current.AverageValue.Format = resource.BinarySI
	}
	metric := string(r.Name) + " resource"
	if t.AverageValue == nil {
		current.AverageUtilization = &use.utilization
		if r.Container != "" {
			metric = string(r.Name) + " container resource"
		}
		metric += " utilization (percentage of request)"
	}
	return answer{n, metric, autoscalingv2.MetricStatus{Resource: &autoscalingv2.ResourceMetricStatus{Current: current}}}, nil
}

func (q *question) resourceReplicas(ctx context.Context, r Resource, t *autoscalingv2.MetricTarget) (int32, usage, error) {
	samples, err := q.metrics.Resource(ctx, q.key.Namespace, q.selector, r)
	if err != nil {
		return 0, usage{}, fmt.Errorf("unable to get metrics for resource %s: %w", r.Name, err)
	}
	j := q.judge(samples, r.Name)
	g, err := j.settle()
	if err != nil {
		return 0, usage{}, err
	}
	if t.AverageValue != nil {
		return j.replicas(g, againstValue(t.AverageValue.MilliValue()))
	}
	requests, err := requestsOf(q.pods, r)
	if err != nil {
		return 0, usage{}, err
	}
	return j.replicas(g, againstRequests(requests, *t.AverageUtilization))
}

func (q *question) podsMetric(ctx context.Context, s *autoscalingv2.PodsMetricSource) (answer, error) {
	m, err := metricOf(s.Metric)
	if err != nil {
		return answer{}, err
	}
	samples, err := q.metrics.Pods(ctx, q.key.Namespace, q.selector, m)
	if err != nil {
		return answer{}, fmt.Errorf("unable to get metric %s: %w", m.Name, err)
	}
	j := q.judge(samples, "")
	g, err := j.settle()
	if err != nil {
		return answer{}, err
	}
	n, use, err := j.replicas(g, againstValue(s.Target.AverageValue.MilliValue()))
	if err != nil {
		return answer{}, err
	}
	return answer{n, "pods metric " + m.Name, autoscalingv2.MetricStatus{
		Type: autoscalingv2.PodsMetricSourceType,
		Pods: &autoscalingv2.PodsMetricStatus{Metric: s.Metric, Current: average(use.average)},
	}}, nil
}

// object also returns what the condition says of an error, which is less than the error.
func (q *question) object(ctx context.Context, s *autoscalingv2.ObjectMetricSource) (a answer, told, err error) {
	m, err := metricOf(s.Metric)
	if err != nil {
		return answer{}, err, err
	}
	whole := s.Target.Type == autoscalingv2.ValueMetricType && s.Target.Value != nil
	if !whole && (s.Target.Type != autoscalingv2.AverageValueMetricType || s.Target.AverageValue == nil) {
		err := errors.New("invalid object metric source: neither a value target nor an average value target was set")
		return answer{}, err, err
	}
	status := func(current autoscalingv2.MetricValueStatus) autoscalingv2.MetricStatus {
		return autoscalingv2.MetricStatus{Type: autoscalingv2.ObjectMetricSourceType, Object: &autoscalingv2.ObjectMetricStatus{
			DescribedObject: s.DescribedObject, Metric: s.Metric, Current: current,
		}}
	}
	value, err := q.metrics.Object(ctx, q.key.Namespace, s.DescribedObject, m)
	if err != nil {
		err = fmt.Errorf("unable to get metric %s on %s %s/%s: %w", m.Name, s.DescribedObject.Kind, q.key.Namespace, s.DescribedObject.Name, err)
	}
	switch {
	case err != nil && whole:
		return answer{}, err, err
	case err != nil:
		return answer{}, err, fmt.Errorf("failed to get %s object metric: %w", m.Name, err)
	case whole:
		n, err := byRatio(q.pods, q.replicas, float64(value)/float64(s.Target.Value.MilliValue()), q.tolerance)
		if err != nil {
			err = countingFailed(err)
		}
		return answer{n, s.DescribedObject.Kind + " metric " + m.Name, status(total(value))}, err, err
	}
	n, share := byShare(q.running, value, s.Target.AverageValue.MilliValue(), q.tolerance)
	return answer{n, fmt.Sprintf("external metric %s(%+v)", m.Name, s.Metric.Selector), status(average(share))}, nil, nil
}

// countingFailed is the error of counting ready pods.
func countingFailed(err error) error { return fmt.Errorf("unable to calculate ready pods: %w", err) }

// external also returns what the condition says of an error, which is less than the error.
func (q *question) external(ctx context.Context, s *autoscalingv2.ExternalMetricSource) (a answer, told, err error) {
	if s.Target.AverageValue == nil && s.Target.Value == nil {
		err := errors.New("invalid external metric source: neither a value target nor an average value target was set")
		return answer{}, err, err
	}
	n, current, err := q.externalReplicas(ctx, s)
	switch {
	case err != nil && s.Target.AverageValue != nil:
		return answer{}, err, fmt.Errorf("failed to get %s external metric: %w", s.Metric.Name, err)
	case err != nil:
		return answer{}, err, fmt.Errorf("failed to get external metric %s: %w", s.Metric.Name, err)
	}
	return answer{n, fmt.Sprintf("external metric %s(%+v)", s.Metric.Name, s.Metric.Selector), autoscalingv2.MetricStatus{
		Type:     autoscalingv2.ExternalMetricSourceType,
		External: &autoscalingv2.ExternalMetricStatus{Metric: s.Metric, Current: current},
	}}, nil, nil
}

func (q *question) externalReplicas(ctx context.Context, s *autoscalingv2.ExternalMetricSource) (int32, autoscalingv2.MetricValueStatus, error) {
	m, err := metricOf(s.Metric)
	if err != nil {
		return 0, autoscalingv2.MetricValueStatus{}, err
	}
	series, err := q.metrics.External(ctx, q.key.Namespace, m)
	if err != nil {
		return 0, autoscalingv2.MetricValueStatus{}, fmt.Errorf("unable to get external metric %s/%s/%+v: %w", q.key.Namespace, m.Name, s.Metric.Selector, err)
	}
	var value int64
	for _, v := range series {
		if v > 0 && value > math.MaxInt64-v {
			value = math.MaxInt64
			break
		}
		value += v
	}
	if s.Target.AverageValue != nil {
		n, share := byShare(q.running, value, s.Target.AverageValue.MilliValue(), q.tolerance)
		return n, average(share), nil
	}
	n, err := byRatio(q.pods, q.replicas, float64(value)/float64(s.Target.Value.MilliValue()), q.tolerance)
	if err != nil {
		return 0, autoscalingv2.MetricValueStatus{}, countingFailed(err)
	}
	return n, total(value), nil
}

func total(milli int64) autoscalingv2.MetricValueStatus {
	return autoscalingv2.MetricValueStatus{Value: resource.NewMilliQuantity(milli, resource.DecimalSI)}
}

func average(milli int64) autoscalingv2.MetricValueStatus {
	return autoscalingv2.MetricValueStatus{AverageValue: resource.NewMilliQuantity(milli, resource.DecimalSI)}
}
