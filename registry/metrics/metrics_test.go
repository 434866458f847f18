package metrics_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kubelet/pkg/apis/stats/v1alpha1"
	"k8s.io/metrics/pkg/apis/metrics/v1beta1"

	"github.com/keelson-dev/keelson/apiserver"
	"github.com/keelson-dev/keelson/apiserver/openapi"
	"github.com/keelson-dev/keelson/authz/alwaysallow"
	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/registry/core"
	"github.com/keelson-dev/keelson/registry/metrics"
	"github.com/keelson-dev/keelson/storage/memory"
)

var now = time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)

// fixed is a Source of two nodes and three pods.
type fixed struct{ err error }

func (f fixed) Nodes(context.Context) ([]metrics.NodeUsage, error) {
	use := metrics.Usage{At: now, Window: 10 * time.Second, CPU: 250_000_000, Memory: 1 << 30}
	return []metrics.NodeUsage{
		{Name: "node-1", Usage: use},
		{Name: "node-0", Usage: use, Labels: map[string]string{"zone": "a"}},
	}, f.err
}

func (f fixed) Pods(context.Context, string) ([]metrics.PodUsage, error) {
	use := func(cpu uint64) metrics.Usage {
		return metrics.Usage{At: now, Window: 10 * time.Second, CPU: cpu, Memory: 20 << 20}
	}
	return []metrics.PodUsage{
		{Namespace: "default", Name: "web", Labels: map[string]string{"app": "web"}, Containers: []metrics.ContainerUsage{
			{Name: "app", Usage: use(1_500_000)}, {Name: "side", Usage: use(500_000)}}},
		{Namespace: "default", Name: "idle"},
		{Namespace: "other", Name: "db", Containers: []metrics.ContainerUsage{{Name: "db", Usage: use(7)}}},
	}, f.err
}

// serve runs an API server with the core kinds and these until the test ends.
func serve(t testing.TB, s metrics.Source) (string, *registry.Registry) {
	t.Helper()
	store := memory.New(memory.Options{})
	reg, err := registry.New(store, append(core.Kinds(core.Options{}), metrics.Kinds(s)...), registry.Options{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- reg.Run(ctx) }()
	server := httptest.NewServer(apiserver.New(reg, apiserver.Options{Authorizer: alwaysallow.New()}))
	t.Cleanup(func() {
		server.Close()
		cancel()
		if err := errors.Join(<-done, store.Close()); err != nil {
			t.Error(err)
		}
	})
	if err := reg.WaitSynced(ctx); err != nil {
		t.Fatal(err)
	}
	return server.URL, reg
}

// ask makes a request and decodes the response.
func ask(t *testing.T, method, url, accept string, into any) int {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Accept", accept)
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if err := json.NewDecoder(answer.Body).Decode(into); err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode
}

const asJSON = "application/json"

func TestServed(t *testing.T) {
	url, reg := serve(t, fixed{})
	const group = "/apis/metrics.k8s.io/v1beta1"

	var resources metav1.APIResourceList
	if code := ask(t, "GET", url+group, asJSON, &resources); code != 200 || len(resources.APIResources) != 2 {
		t.Fatalf("discovery: %d %+v", code, resources)
	}
	for i, want := range []metav1.APIResource{
		{Name: "nodes", Kind: "NodeMetrics", Verbs: metav1.Verbs{"get", "list"}},
		{Name: "pods", Kind: "PodMetrics", Namespaced: true, Verbs: metav1.Verbs{"get", "list"}},
	} {
		if got := resources.APIResources[i]; got.String() != want.String() {
			t.Errorf("discovery: %s, not %s", got.String(), want.String())
		}
	}

	var nodes v1beta1.NodeMetricsList
	if code := ask(t, "GET", url+group+"/nodes", asJSON, &nodes); code != 200 || len(nodes.Items) != 2 || nodes.Kind != "NodeMetricsList" {
		t.Fatalf("nodes: %d %+v", code, nodes)
	}
	if n := nodes.Items[0]; n.Name != "node-0" || n.Usage.Cpu().String() != "250m" || n.Usage.Memory().String() != "1Gi" ||
		!n.Timestamp.Time.Equal(now) || n.Window.Duration != 10*time.Second {
		t.Errorf("node: %+v", n)
	}
	if ask(t, "GET", url+group+"/nodes?labelSelector=zone%3Da", asJSON, &nodes); len(nodes.Items) != 1 {
		t.Errorf("nodes by label: %+v", nodes.Items)
	}
	var pods v1beta1.PodMetricsList
	for path, want := range map[string]string{
		"/pods": "default/web other/db", "/namespaces/default/pods": "default/web", "/namespaces/none/pods": "",
		"/pods?labelSelector=app": "default/web", "/pods?fieldSelector=metadata.name%3Ddb": "other/db",
	} {
		pods = v1beta1.PodMetricsList{}
		if code := ask(t, "GET", url+group+path, asJSON, &pods); code != 200 {
			t.Errorf("%s: %d", path, code)
		}
		var names []string
		for _, p := range pods.Items {
			names = append(names, p.Namespace+"/"+p.Name)
		}
		if got := strings.Join(names, " "); got != want {
			t.Errorf("%s: %s, not %s", path, got, want)
		}
	}
	var pod v1beta1.PodMetrics
	if code := ask(t, "GET", url+group+"/namespaces/default/pods/web", asJSON, &pod); code != 200 || len(pod.Containers) != 2 ||
		pod.Containers[0].Usage.Cpu().String() != "1500u" {
		t.Errorf("pod: %d %+v", code, pod)
	}
	var status metav1.Status
	if code := ask(t, "GET", url+group+"/nodes/none", asJSON, &status); code != 404 || status.Message != `nodes.metrics.k8s.io "none" not found` {
		t.Errorf("an unknown node: %d %+v", code, status)
	}
	for method, path := range map[string]string{
		"POST": "/nodes", "DELETE": "/nodes/node-0", "PUT": "/namespaces/default/pods/web", "PATCH": "/nodes/node-1",
	} {
		if code := ask(t, method, url+group+path, asJSON, &status); code != http.StatusMethodNotAllowed {
			t.Errorf("%s %s: %d", method, path, code)
		}
	}
	if code := ask(t, "GET", url+group+"/nodes?watch=true", asJSON, &status); code != http.StatusMethodNotAllowed {
		t.Errorf("watch: %d", code)
	}
	var table metav1.Table
	if ask(t, "GET", url+group+"/pods", "application/json;as=Table;v=v1;g=meta.k8s.io", &table); len(table.Rows) != 2 ||
		fmt.Sprint(table.Rows[0].Cells) != "[web 2m 40Mi 10s]" {
		t.Errorf("table: %+v", table)
	}
	if res, ok := reg.Resource(schema.GroupResource{Group: "metrics.k8s.io", Resource: "pods"}); !ok || res.Stored() || res.Len() != 0 {
		t.Error("metrics are stored")
	}
}

// TestOpenAPI: the documents describe exactly the supported operations.
func TestOpenAPI(t *testing.T) {
	w := httptest.NewRecorder()
	openapi.New(metrics.Kinds(fixed{}), openapi.Options{}).Paths()["/openapi/v3/"].ServeHTTP(
		w, httptest.NewRequest(http.MethodGet, "/openapi/v3/apis/metrics.k8s.io/v1beta1", http.NoBody))
	var document struct {
		Paths map[string]map[string]any
	}
	if err := json.Unmarshal(w.Body.Bytes(), &document); err != nil || w.Code != http.StatusOK {
		t.Fatalf("%d: %v", w.Code, err)
	}
	const group = "/apis/metrics.k8s.io/v1beta1/"
	for _, path := range []string{"nodes", "nodes/{name}", "pods", "namespaces/{namespace}/pods", "namespaces/{namespace}/pods/{name}"} {
		methods := document.Paths[group+path]
		delete(methods, "parameters")
		if len(methods) != 1 || methods["get"] == nil {
			t.Errorf("%s: %v", path, methods)
		}
	}
	if len(document.Paths) != 6 {
		t.Errorf("%d paths", len(document.Paths))
	}
}

func TestSourceFails(t *testing.T) {
	url, _ := serve(t, fixed{errors.New("no way to the kubelets")})
	for _, path := range []string{"/nodes", "/nodes/node-0", "/pods", "/namespaces/default/pods/web"} {
		var status metav1.Status
		if code := ask(t, "GET", url+"/apis/metrics.k8s.io/v1beta1"+path, asJSON, &status); code != http.StatusInternalServerError {
			t.Errorf("%s: %d %+v", path, code, status)
		}
	}
}

func TestSummaries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := func(v uint64) *uint64 { return &v }
		cpu := func(v uint64) *v1alpha1.CPUStats {
			return &v1alpha1.CPUStats{Time: metav1.NewTime(now), UsageNanoCores: n(v)}
		}
		bytes := &v1alpha1.MemoryStats{WorkingSetBytes: n(5)}
		asked := 0
		s := &metrics.Summaries{
			AllNodes: func() []*corev1.Node {
				return []*corev1.Node{{ObjectMeta: metav1.ObjectMeta{Name: "a", Labels: map[string]string{"x": "y"}}},
					{ObjectMeta: metav1.ObjectMeta{Name: "silent"}}, {ObjectMeta: metav1.ObjectMeta{Name: "stuck"}}}
			},
			Pod: func(_, name string) *corev1.Pod {
				if name == "gone" {
					return nil
				}
				return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": name}}}
			},
			Summary: func(ctx context.Context, node string) (*v1alpha1.Summary, error) {
				switch node {
				case "silent":
					return nil, errors.New("connection refused")
				case "stuck":
					<-ctx.Done()
					return nil, ctx.Err()
				}
				asked++
				pod := func(name string, rates ...uint64) v1alpha1.PodStats {
					p := v1alpha1.PodStats{PodRef: v1alpha1.PodReference{Name: name, Namespace: "default"}}
					for i, rate := range rates {
						c := v1alpha1.ContainerStats{Name: fmt.Sprint("c", i), CPU: cpu(rate), Memory: bytes}
						if rate == 0 {
							c.CPU.UsageNanoCores = nil
						}
						p.Containers = append(p.Containers, c)
					}
					return p
				}
				return &v1alpha1.Summary{
					Node: v1alpha1.NodeStats{CPU: cpu(9), Memory: bytes},
					Pods: []v1alpha1.PodStats{pod("web", 3, 4), pod("new", 3, 0), pod("gone", 3), pod("empty")},
				}, nil
			},
		}
		for range 3 {
			nodes, err := s.Nodes(t.Context())
			if err != nil || len(nodes) != 1 || nodes[0].CPU != 9 || nodes[0].Memory != 5 || nodes[0].Labels["x"] != "y" || nodes[0].Window != 10*time.Second {
				t.Errorf("nodes %+v, %v", nodes, err)
			}
			pods, err := s.Pods(t.Context(), "default")
			if err != nil || len(pods) != 1 || pods[0].Name != "web" || len(pods[0].Containers) != 2 || pods[0].Labels["app"] != "web" {
				t.Errorf("pods %+v, %v", pods, err)
			}
			if pods, err := s.Pods(t.Context(), "other"); err != nil || len(pods) != 0 {
				t.Errorf("pods elsewhere %+v, %v", pods, err)
			}
		}
		if asked != 1 {
			t.Errorf("asked %d times in a moment", asked)
		}
		time.Sleep(3 * time.Second)
		if _, err := s.Nodes(t.Context()); err != nil || asked != 2 {
			t.Errorf("asked %d times after a while, %v", asked, err)
		}
		time.Sleep(3 * time.Second)
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := s.Nodes(ended); !errors.Is(err, context.Canceled) {
			t.Errorf("after the end: %v", err)
		}
	})
	if _, err := new(metrics.Summaries).Nodes(t.Context()); err == nil {
		t.Error("nobody to ask, and no error")
	}
}

func Example() {
	for _, kind := range metrics.Kinds(fixed{}) {
		if kind.Plural != "nodes" {
			continue
		}
		list, err := kind.Read.List(context.Background(), "")
		for _, obj := range list {
			node := obj.(*v1beta1.NodeMetrics)
			fmt.Println(node.Name, node.Usage.Cpu(), node.Usage.Memory(), err)
		}
	}
	// Output:
	// node-0 250m 1Gi <nil>
	// node-1 250m 1Gi <nil>
}
