package horizontalpodautoscaler

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"sync"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-dev/keelson/client"
)

// APIs is a Metrics that asks the APIs metrics.k8s.io/v1beta1, custom.metrics.k8s.io/v1beta2 or v1beta1, and
// external.metrics.k8s.io/v1beta1. Make one with NewAPIs.
type APIs struct {
	client client.Querier
	served func(context.Context, schema.GroupKind) []schema.GroupVersionResource

	mu      sync.Mutex
	version string // of custom.metrics.k8s.io
	asked   time.Time
}

var _ Metrics = (*APIs)(nil)

// NewAPIs makes an APIs. served returns the resources of a kind, the best first, to name objects that metrics describe.
func NewAPIs(c client.Querier, served func(context.Context, schema.GroupKind) []schema.GroupVersionResource) *APIs {
	return &APIs{client: c, served: served}
}

// podMetrics is the part of metrics.k8s.io/v1beta1.PodMetrics that matters here.
type podMetrics struct {
	Metadata   struct{ Name string }
	Timestamp  metav1.Time
	Window     metav1.Duration
	Containers []struct {
		Name  string
		Usage corev1.ResourceList
	}
}

// Resource implements Metrics.
func (a *APIs) Resource(ctx context.Context, namespace string, pods labels.Selector, r Resource) (map[string]Sample, error) {
	var list struct{ Items []podMetrics }
	err := a.query(ctx, request{
		path: "/apis/metrics.k8s.io/v1beta1/namespaces/" + namespace + "/pods", labels: pods, what: "pods.metrics.k8s.io",
	}, &list)
	if err != nil {
		return nil, fmt.Errorf("unable to fetch metrics from resource metrics API: %w", err)
	}
	if len(list.Items) == 0 {
		return nil, errors.New("no metrics returned from resource metrics API")
	}
	out := make(map[string]Sample, len(list.Items))
	for i := range list.Items {
		if sample, ok := list.Items[i].sample(r); ok {
			out[list.Items[i].Metadata.Name] = sample
		}
	}
	return out, nil
}

// sample returns what a container uses, or all of them if that is known.
func (m *podMetrics) sample(r Resource) (Sample, bool) {
	out, found := Sample{At: m.Timestamp.Time, Window: m.Window.Duration}, false
	for _, c := range m.Containers {
		if r.Container != "" && c.Name != r.Container {
			continue
		}
		q, known := c.Usage[r.Name]
		if !known {
			return Sample{}, false
		}
		found = true
		out.Value += q.MilliValue()
		if r.Container != "" {
			break
		}
	}
	return out, found
}

// customMetric is the part of a MetricValue of custom.metrics.k8s.io that matters here, in either version.
type customMetric struct {
	DescribedObject struct{ Name string }
	Timestamp       metav1.Time
	Window          *int64 // v1beta1
	WindowSeconds   *int64 // v1beta2
	Value           resource.Quantity
}

// Pods implements Metrics.
func (a *APIs) Pods(ctx context.Context, namespace string, pods labels.Selector, m Metric) (map[string]Sample, error) {
	items, err := a.custom(ctx, request{path: "namespaces/" + namespace + "/pods/*/" + m.Name, labels: pods, series: m.Selector, what: "pods.custom.metrics.k8s.io *"})
	if err != nil {
		return nil, err
	}
	if len(items) == 0 {
		return nil, errors.New("no metrics returned from custom metrics API")
	}
	out := make(map[string]Sample, len(items))
	for _, item := range items {
		s := Sample{Value: item.Value.MilliValue(), At: item.Timestamp.Time, Window: time.Minute}
		for _, n := range []*int64{item.Window, item.WindowSeconds} {
			if n != nil {
				s.Window = time.Duration(*n) * time.Second
			}
		}
		out[item.DescribedObject.Name] = s
	}
	return out, nil
}

// Object implements Metrics.
func (a *APIs) Object(ctx context.Context, namespace string, object autoscalingv2.CrossVersionObjectReference, m Metric) (int64, error) {
	kind := schema.FromAPIVersionAndKind(object.APIVersion, object.Kind).GroupKind()
	r := request{path: "namespaces/" + namespace + "/metrics/" + m.Name, series: m.Selector, what: "metrics.custom.metrics.k8s.io " + m.Name}
	if kind != (schema.GroupKind{Kind: "Namespace"}) {
		served := a.served(ctx, kind)
		if len(served) == 0 {
			return 0, fmt.Errorf("unable to fetch metrics from custom metrics API: unable to map kind %s to resource: %w",
				kind.String(), &meta.NoKindMatchError{GroupKind: kind})
		}
		resource := served[0].GroupResource().String()
		r.path = "namespaces/" + namespace + "/" + resource + "/" + object.Name + "/" + m.Name
		r.what = resource + ".custom.metrics.k8s.io " + object.Name
	}
	items, err := a.custom(ctx, r)
	if err != nil {
		return 0, err
	}
	if len(items) != 1 {
		return 0, fmt.Errorf("unable to fetch metrics from custom metrics API: "+
			"the custom metrics API server returned %d results when we asked for exactly one", len(items))
	}
	return items[0].Value.MilliValue(), nil
}

// External implements Metrics.
func (a *APIs) External(ctx context.Context, namespace string, m Metric) ([]int64, error) {
	var list struct {
		Items []struct{ Value resource.Quantity }
	}
	err := a.query(ctx, request{
		path:   "/apis/external.metrics.k8s.io/v1beta1/namespaces/" + namespace + "/" + m.Name,
		labels: m.Selector, what: m.Name + ".external.metrics.k8s.io",
	}, &list)
	if err != nil {
		return nil, fmt.Errorf("unable to fetch metrics from external metrics API: %w", err)
	}
	if len(list.Items) == 0 {
		return nil, errors.New("no metrics returned from external metrics API")
	}
	out := make([]int64, 0, len(list.Items))
	for i := range list.Items {
		out = append(out, list.Items[i].Value.MilliValue())
	}
	return out, nil
}

// request is what a server is asked.
type request struct {
	path           string
	labels, series labels.Selector // nil is none
	what           string          // for errors that the server does not explain
}

// custom asks custom.metrics.k8s.io for a path below its version.
func (a *APIs) custom(ctx context.Context, r request) ([]customMetric, error) {
	var list struct{ Items []customMetric }
	version, err := a.customVersion(ctx)
	if err == nil {
		r.path = "/apis/" + version + "/" + r.path
		err = a.query(ctx, r, &list)
	}
	if err != nil {
		return nil, fmt.Errorf("unable to fetch metrics from custom metrics API: %w", err)
	}
	return list.Items, nil
}

func (a *APIs) query(ctx context.Context, r request, into any) error {
	query := url.Values{}
	for name, selector := range map[string]labels.Selector{"labelSelector": r.labels, "metricLabelSelector": r.series} {
		if selector != nil && selector.String() != "" {
			query.Set(name, selector.String())
		}
	}
	data, err := a.client.Query(ctx, r.path, query)
	if err != nil {
		return explained(err, r.what)
	}
	return json.Unmarshal(data, into)
}

// explained adds what was asked for to an error that does not come from an API, as clients do that know it.
func explained(err error, what string) error {
	status, ok := errors.AsType[*apierrors.StatusError](err)
	if !ok || what == "" || !apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse) {
		return err
	}
	out := &apierrors.StatusError{ErrStatus: *status.ErrStatus.DeepCopy()}
	out.ErrStatus.Message += fmt.Sprintf(" (get %s)", what)
	return out
}

// versionAge is how long the version of custom.metrics.k8s.io is taken to stay the same.
const versionAge = 15 * time.Second

// customVersion returns the group-version of custom.metrics.k8s.io to ask: what the server prefers, if it is known here.
func (a *APIs) customVersion(ctx context.Context) (string, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if time.Since(a.asked) < versionAge {
		return a.version, nil
	}
	const group = "custom.metrics.k8s.io"
	var all metav1.APIGroupList
	if err := a.query(ctx, request{path: "/apis"}, &all); err != nil {
		return "", err
	}
	at := slices.IndexFunc(all.Groups, func(g metav1.APIGroup) bool { return g.Name == group })
	if at < 0 {
		return "", fmt.Errorf("no custom metrics API (%s) registered", group)
	}
	g := &all.Groups[at]
	for _, v := range append([]metav1.GroupVersionForDiscovery{g.PreferredVersion}, g.Versions...) {
		if v.GroupVersion == group+"/v1beta1" || v.GroupVersion == group+"/v1beta2" {
			a.version, a.asked = v.GroupVersion, time.Now()
			return a.version, nil
		}
	}
	return "", errors.New("no known available metric versions found")
}
