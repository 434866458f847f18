package horizontalpodautoscaler

import (
	"context"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// Metrics is where the values of metrics come from. An error says why a value is unknown; no error means that there is one.
// Values are in thousandths. Implementations are safe for concurrent use; callers may change the maps returned.
type Metrics interface {
	ResourceMetrics
	CustomMetrics
	ExternalMetrics
}

// ResourceMetrics has the values of what pods use.
type ResourceMetrics interface {
	// Resource returns what the selected pods use of a resource, by the names of those pods that it is known of.
	Resource(ctx context.Context, namespace string, pods labels.Selector, r Resource) (map[string]Sample, error)
}

// CustomMetrics has the values of metrics that describe objects.
type CustomMetrics interface {
	// Pods returns a metric of the selected pods, by the names of those pods that have it.
	Pods(ctx context.Context, namespace string, pods labels.Selector, m Metric) (map[string]Sample, error)
	// Object returns a metric of an object in the namespace, or of the namespace itself.
	Object(ctx context.Context, namespace string, object autoscalingv2.CrossVersionObjectReference, m Metric) (int64, error)
}

// ExternalMetrics has the values of metrics that are not about objects of the cluster.
type ExternalMetrics interface {
	// External returns the values of a metric: one for each of its series.
	External(ctx context.Context, namespace string, m Metric) ([]int64, error)
}

// Resource is what containers use.
type Resource struct {
	Name corev1.ResourceName
	// Container is the only one that counts; empty means that all of a pod do.
	Container string
}

// Metric names the series of a metric that count.
type Metric struct {
	Name     string
	Selector labels.Selector // of the labels of series; one that selects nothing selects all
}

// Sample is a value of a pod.
type Sample struct {
	Value  int64         // in thousandths
	At     time.Time     // the end of the window
	Window time.Duration // over which it was measured
}
