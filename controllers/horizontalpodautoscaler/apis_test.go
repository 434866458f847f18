package horizontalpodautoscaler_test

import (
	"context"
	"errors"
	"maps"
	"net/url"
	"testing"
	"testing/synctest"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-dev/keelson/controllers/horizontalpodautoscaler"
)

// answers are a server's, by what it is asked.
type answers struct {
	json  map[string]string
	asked []string
}

func (a *answers) Query(_ context.Context, path string, query url.Values) ([]byte, error) {
	if len(query) > 0 {
		path += "?" + query.Encode()
	}
	a.asked = append(a.asked, path)
	if data, ok := a.json[path]; ok {
		return []byte(data), nil
	}
	return nil, errors.New("not found")
}

func newAPIs(json map[string]string) (*horizontalpodautoscaler.APIs, *answers) {
	a := &answers{json: json}
	return horizontalpodautoscaler.NewAPIs(a, func(_ context.Context, kind schema.GroupKind) []schema.GroupVersionResource {
		switch kind.Kind {
		case "Service":
			return []schema.GroupVersionResource{{Version: "v1", Resource: "services"}}
		case "Ingress":
			return []schema.GroupVersionResource{{Group: "networking.k8s.io", Version: "v1", Resource: "ingresses"}, {Resource: "x"}}
		}
		return nil
	}), a
}

func wantError(t *testing.T, err error, want string) {
	t.Helper()
	if err == nil || err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}
}

func TestResourceMetrics(t *testing.T) {
	const path = "/apis/metrics.k8s.io/v1beta1/namespaces/ns/pods?labelSelector=app%3Dweb"
	selector := labels.SelectorFromSet(labels.Set{"app": "web"})
	m, _ := newAPIs(map[string]string{path: `{"kind":"PodMetricsList","apiVersion":"metrics.k8s.io/v1beta1","items":[
		{"metadata":{"name":"a"},"timestamp":"2020-01-02T03:04:05Z","window":"10s","containers":[{"name":"x","usage":{"cpu":"100m","memory":"1Ki"}},{"name":"y","usage":{"cpu":"1n"}}]},
		{"metadata":{"name":"b"},"timestamp":"2020-01-02T03:04:05Z","window":"10s","containers":[{"name":"y","usage":{"cpu":"2"}}]},
		{"metadata":{"name":"c"},"timestamp":"2020-01-02T03:04:05Z","window":"10s","containers":[]}]}`})
	at := time.Date(2020, 1, 2, 3, 4, 5, 0, time.UTC)
	is := func(v int64) sample { return sample{Value: v, At: at, Window: 10 * time.Second} }
	for r, want := range map[horizontalpodautoscaler.Resource]map[string]sample{
		{Name: "cpu"}:                    {"a": is(101), "b": is(2000)}, // rounded up, each of them
		{Name: "memory"}:                 {},
		{Name: "cpu", Container: "x"}:    {"a": is(100)},
		{Name: "memory", Container: "x"}: {"a": is(1024000)},
		{Name: "memory", Container: "y"}: {},
		{Name: "cpu", Container: "y"}:    {"a": is(1), "b": is(2000)},
	} {
		got, err := m.Resource(t.Context(), "ns", selector, r)
		if err != nil || !maps.EqualFunc(got, want, func(a, b sample) bool { return a.Value == b.Value && a.At.Equal(b.At) && a.Window == b.Window }) {
			t.Errorf("%+v: %+v %v, want %+v", r, got, err, want)
		}
	}
	_, err := m.Resource(t.Context(), "other", selector, horizontalpodautoscaler.Resource{Name: "cpu"})
	wantError(t, err, "unable to fetch metrics from resource metrics API: not found")
	m, _ = newAPIs(map[string]string{path: `{"kind":"PodMetricsList","apiVersion":"metrics.k8s.io/v1beta1","items":[]}`})
	_, err = m.Resource(t.Context(), "ns", selector, horizontalpodautoscaler.Resource{Name: "cpu"})
	wantError(t, err, "no metrics returned from resource metrics API")
}

func TestExternalMetrics(t *testing.T) {
	const path = "/apis/external.metrics.k8s.io/v1beta1/namespaces/ns/queue?labelSelector=q%3D1"
	m, _ := newAPIs(map[string]string{path: `{"kind":"L","apiVersion":"external.metrics.k8s.io/v1beta1","items":[{"value":"5"},{"value":"7m"}]}`})
	queue := horizontalpodautoscaler.Metric{Name: "queue", Selector: labels.SelectorFromSet(labels.Set{"q": "1"})}
	got, err := m.External(t.Context(), "ns", queue)
	if err != nil || len(got) != 2 || got[0] != 5000 || got[1] != 7 {
		t.Errorf("%v %v", got, err)
	}
	_, err = m.External(t.Context(), "other", queue)
	wantError(t, err, "unable to fetch metrics from external metrics API: not found")
	m, _ = newAPIs(map[string]string{path: `{"kind":"L","apiVersion":"external.metrics.k8s.io/v1beta1","items":[]}`})
	_, err = m.External(t.Context(), "ns", queue)
	wantError(t, err, "no metrics returned from external metrics API")
}

func groups(preferred string, all ...string) string {
	out := `{"groups":[{"name":"apps"},{"name":"custom.metrics.k8s.io","preferredVersion":{"groupVersion":"custom.metrics.k8s.io/` + preferred + `"},"versions":[`
	for i, v := range all {
		if i > 0 {
			out += ","
		}
		out += `{"groupVersion":"custom.metrics.k8s.io/` + v + `"}`
	}
	return out + `]}]}`
}

func TestCustomMetrics(t *testing.T) {
	const base = "/apis/custom.metrics.k8s.io/v1beta2/namespaces/ns/"
	m, asked := newAPIs(map[string]string{
		"/apis": groups("v1beta2", "v1beta1", "v1beta2"),
		base + "pods/*/qps?labelSelector=app%3Dweb&metricLabelSelector=verb%3DGET": `{"items":[
			{"describedObject":{"name":"a"},"metric":{"name":"qps"},"timestamp":"2020-01-02T03:04:05Z","windowSeconds":5,"value":"1500m"},
			{"describedObject":{"name":"b"},"metric":{"name":"qps"},"timestamp":"2020-01-02T03:04:05Z","value":"2"}]}`,
		base + "pods/*/none":                        `{"items":[]}`,
		base + "services/web/hits":                  `{"items":[{"describedObject":{"name":"web"},"value":"7"}]}`,
		base + "ingresses.networking.k8s.io/i/hits": `{"items":[{"value":"8"}]}`,
		base + "metrics/hits":                       `{"items":[{"value":"9"}]}`,
		base + "services/web/two":                   `{"items":[{"value":"9"},{"value":"9"}]}`,
	})
	metric := func(name string, set labels.Set) horizontalpodautoscaler.Metric {
		return horizontalpodautoscaler.Metric{Name: name, Selector: labels.SelectorFromSet(set)}
	}
	web := labels.SelectorFromSet(labels.Set{"app": "web"})
	got, err := m.Pods(t.Context(), "ns", web, metric("qps", labels.Set{"verb": "GET"}))
	at := time.Date(2020, 1, 2, 3, 4, 5, 0, time.UTC)
	if a, b := got["a"], got["b"]; err != nil || len(got) != 2 || a.Value != 1500 || a.Window != 5*time.Second || !a.At.Equal(at) || b.Value != 2000 || b.Window != time.Minute {
		t.Errorf("%+v %v", got, err)
	}
	_, err = m.Pods(t.Context(), "ns", labels.Everything(), metric("none", nil))
	wantError(t, err, "no metrics returned from custom metrics API")
	_, err = m.Pods(t.Context(), "ns", labels.Everything(), metric("unknown", nil))
	wantError(t, err, "unable to fetch metrics from custom metrics API: not found")
	for want, ref := range map[int64]autoscalingv2.CrossVersionObjectReference{
		7000: {APIVersion: "v1", Kind: "Service", Name: "web"}, 8000: {APIVersion: "networking.k8s.io/v1", Kind: "Ingress", Name: "i"},
		9000: {APIVersion: "v1", Kind: "Namespace", Name: "whatever"},
	} {
		if got, err := m.Object(t.Context(), "ns", ref, metric("hits", nil)); err != nil || got != want {
			t.Errorf("%v: %d %v", ref, got, err)
		}
	}
	service := autoscalingv2.CrossVersionObjectReference{APIVersion: "v1", Kind: "Service", Name: "web"}
	_, err = m.Object(t.Context(), "ns", service, metric("two", nil))
	wantError(t, err, "unable to fetch metrics from custom metrics API: the custom metrics API server returned 2 results when we asked for exactly one")
	_, err = m.Object(t.Context(), "ns", service, metric("unknown", nil))
	wantError(t, err, "unable to fetch metrics from custom metrics API: not found")
	_, err = m.Object(t.Context(), "ns", autoscalingv2.CrossVersionObjectReference{APIVersion: "example.com/v1", Kind: "Shop", Name: "x"}, metric("hits", nil))
	wantError(t, err, `unable to fetch metrics from custom metrics API: unable to map kind Shop.example.com to resource: no matches for kind "Shop" in group "example.com"`)
	discoveries := 0
	for _, path := range asked.asked {
		if path == "/apis" {
			discoveries++
		}
	}
	if discoveries != 1 {
		t.Errorf("asked %d times for versions", discoveries)
	}
}

func TestCustomMetricsVersions(t *testing.T) { synctest.Test(t, testCustomMetricsVersions) }

func testCustomMetricsVersions(t *testing.T) {
	qps := horizontalpodautoscaler.Metric{Name: "qps", Selector: labels.Nothing()}
	ask := func(m *horizontalpodautoscaler.APIs) (map[string]sample, error) {
		return m.Pods(t.Context(), "ns", labels.Everything(), qps)
	}
	m, asked := newAPIs(map[string]string{
		"/apis": groups("v9", "v9", "v1beta1"),
		"/apis/custom.metrics.k8s.io/v1beta1/namespaces/ns/pods/*/qps": `{"items":[{"describedObject":{"name":"a"},"metricName":"qps","window":7,"value":"1"}]}`,
	})
	if got, err := ask(m); err != nil || got["a"].Window != 7*time.Second {
		t.Errorf("%+v %v", got, err)
	}
	asked.json["/apis"] = groups("v2", "v2")
	time.Sleep(14 * time.Second)
	if _, err := ask(m); err != nil {
		t.Errorf("within 15 s: %v", err)
	}
	time.Sleep(time.Second)
	_, err := ask(m)
	wantError(t, err, "unable to fetch metrics from custom metrics API: no known available metric versions found")
	asked.json["/apis"] = `{"groups":[{"name":"apps"}]}`
	_, err = ask(m)
	wantError(t, err, "unable to fetch metrics from custom metrics API: no custom metrics API (custom.metrics.k8s.io) registered")
	delete(asked.json, "/apis")
	_, err = ask(m)
	wantError(t, err, "unable to fetch metrics from custom metrics API: not found")
}

// unserved answers as a server that has none of the APIs, or whose API does not answer.
type unserved struct{ code int }

func (u unserved) Query(_ context.Context, path string, _ url.Values) ([]byte, error) {
	if path == "/apis" {
		return []byte(groups("v1beta2", "v1beta2")), nil
	}
	return nil, apierrors.NewGenericServerResponse(u.code, "get", schema.GroupResource{}, "", "page not found", 0, true)
}

// TestUnserved: errors that the server does not explain say what was asked for.
func TestUnserved(t *testing.T) {
	m := horizontalpodautoscaler.NewAPIs(unserved{404}, func(context.Context, schema.GroupKind) []schema.GroupVersionResource {
		return []schema.GroupVersionResource{{Group: "networking.k8s.io", Version: "v1", Resource: "ingresses"}}
	})
	const missing = "the server could not find the requested resource"
	_, err := m.Resource(t.Context(), "ns", labels.Everything(), horizontalpodautoscaler.Resource{Name: "cpu"})
	wantError(t, err, "unable to fetch metrics from resource metrics API: "+missing+" (get pods.metrics.k8s.io)")
	if !apierrors.IsNotFound(err) {
		t.Errorf("%v is not one of a missing resource", err)
	}
	of := horizontalpodautoscaler.Metric{Name: "m", Selector: labels.Nothing()}
	_, err = m.External(t.Context(), "ns", of)
	wantError(t, err, "unable to fetch metrics from external metrics API: "+missing+" (get m.external.metrics.k8s.io)")
	_, err = m.Pods(t.Context(), "ns", labels.Everything(), of)
	wantError(t, err, "unable to fetch metrics from custom metrics API: "+missing+" (get pods.custom.metrics.k8s.io *)")
	_, err = m.Object(t.Context(), "ns", autoscalingv2.CrossVersionObjectReference{APIVersion: "v1", Kind: "Namespace"}, of)
	wantError(t, err, "unable to fetch metrics from custom metrics API: "+missing+" (get metrics.custom.metrics.k8s.io m)")
	_, err = m.Object(t.Context(), "ns", autoscalingv2.CrossVersionObjectReference{APIVersion: "networking.k8s.io/v1", Kind: "Ingress", Name: "i"}, of)
	wantError(t, err, "unable to fetch metrics from custom metrics API: "+missing+" (get ingresses.networking.k8s.io.custom.metrics.k8s.io i)")
	m = horizontalpodautoscaler.NewAPIs(unserved{503}, nil)
	_, err = m.Resource(t.Context(), "ns", labels.Everything(), horizontalpodautoscaler.Resource{Name: "cpu"})
	wantError(t, err, "unable to fetch metrics from resource metrics API: the server is currently unable to handle the request (get pods.metrics.k8s.io)")
}
