package autoscaling

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/registry"
)

func columns() registry.Columns[*autoscalingv2.HorizontalPodAutoscaler] {
	spec, status := autoscalingv2.HorizontalPodAutoscalerSpec{}.SwaggerDoc(), autoscalingv2.HorizontalPodAutoscalerStatus{}.SwaggerDoc()
	return registry.Columns[*autoscalingv2.HorizontalPodAutoscaler]{
		Definitions: []metav1.TableColumnDefinition{
			registry.NameColumn(),
			registry.TextColumn("Reference", spec["scaleTargetRef"]),
			registry.TextColumn("Targets", spec["metrics"]),
			registry.TextColumn("MinPods", spec["minReplicas"]),
			registry.TextColumn("MaxPods", spec["maxReplicas"]),
			registry.TextColumn("Replicas", status["currentReplicas"]),
			registry.AgeColumn(),
		},
		Cells: func(a *autoscalingv2.HorizontalPodAutoscaler, now time.Time) []any {
			least := "<unset>"
			if a.Spec.MinReplicas != nil {
				least = strconv.Itoa(int(*a.Spec.MinReplicas))
			}
			return []any{
				a.Name, a.Spec.ScaleTargetRef.Kind + "/" + a.Spec.ScaleTargetRef.Name, targets(a.Spec.Metrics, a.Status.CurrentMetrics),
				least, int64(a.Spec.MaxReplicas), int64(a.Status.CurrentReplicas), registry.Age(a.CreationTimestamp, now),
			}
		},
	}
}

// targets shows the first two metrics.
func targets(specs []autoscalingv2.MetricSpec, statuses []autoscalingv2.MetricStatus) string {
	if len(specs) == 0 {
		return "<none>"
	}
	const most = 2
	var list []string
	for i := range specs {
		var status autoscalingv2.MetricStatus
		if i < len(statuses) {
			status = statuses[i]
		}
		list = append(list, target(&specs[i], &status))
	}
	if more := len(list) - most; more > 0 {
		return fmt.Sprintf("%s + %d more...", strings.Join(list[:most], ", "), more)
	}
	return strings.Join(list, ", ")
}

// target shows what a metric is and should be.
func target(m *autoscalingv2.MetricSpec, s *autoscalingv2.MetricStatus) string {
	var current *autoscalingv2.MetricValueStatus
	switch {
	case m.Type == autoscalingv2.ExternalMetricSourceType && m.External != nil:
		if s.External != nil {
			current = &s.External.Current
		}
		return valueOrAverage(&m.External.Target, current)
	case m.Type == autoscalingv2.ObjectMetricSourceType && m.Object != nil:
		if s.Object != nil {
			current = &s.Object.Current
		}
		return valueOrAverage(&m.Object.Target, current)
	case m.Type == autoscalingv2.PodsMetricSourceType && m.Pods != nil:
		now := unknown
		if s.Pods != nil {
			now = text(s.Pods.Current.AverageValue)
		}
		return now + "/" + text(m.Pods.Target.AverageValue)
	case m.Type == autoscalingv2.ResourceMetricSourceType && m.Resource != nil:
		if s.Resource != nil {
			current = &s.Resource.Current
		}
		return m.Resource.Name.String() + ": " + usage(&m.Resource.Target, current)
	case m.Type == autoscalingv2.ContainerResourceMetricSourceType && m.ContainerResource != nil:
		if s.ContainerResource != nil {
			current = &s.ContainerResource.Current
		}
		return m.ContainerResource.Name.String() + ": " + usage(&m.ContainerResource.Target, current)
	}
	return "<unknown type>"
}

const unknown = "<unknown>"

func valueOrAverage(t *autoscalingv2.MetricTarget, current *autoscalingv2.MetricValueStatus) string {
	now, want, suffix := (*resource.Quantity)(nil), t.Value, ""
	if t.AverageValue != nil {
		want, suffix = t.AverageValue, " (avg)"
		if current != nil {
			now = current.AverageValue
		}
		if now == nil {
			return unknown + "/" + text(want) + suffix
		}
	} else if current != nil {
		now = current.Value
	} else {
		return unknown + "/" + text(want)
	}
	return text(now) + "/" + text(want) + suffix
}

func usage(t *autoscalingv2.MetricTarget, current *autoscalingv2.MetricValueStatus) string {
	now := unknown
	if t.AverageValue != nil {
		if current != nil {
			now = text(current.AverageValue)
		}
		return now + "/" + text(t.AverageValue)
	}
	if current != nil && current.AverageUtilization != nil {
		now = fmt.Sprintf("%d%%", *current.AverageUtilization)
	}
	want := "<auto>"
	if t.AverageUtilization != nil {
		want = fmt.Sprintf("%d%%", *t.AverageUtilization)
	}
	return now + "/" + want
}

// text is a quantity's String, which may change the quantity.
func text(q *resource.Quantity) string {
	if q == nil {
		return q.String()
	}
	return new(q.DeepCopy()).String()
}
