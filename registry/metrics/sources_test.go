package metrics_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kubelet/pkg/apis/stats/v1alpha1"
	"k8s.io/metrics/pkg/apis/metrics/v1beta1"

	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/registry/metrics"
)

// twins is a Source of pods with the same names in two namespaces that ignores the namespace asked for.
type twins struct{ fixed }

func (twins) Pods(context.Context, string) ([]metrics.PodUsage, error) {
	use := func(name string, after time.Duration) metrics.ContainerUsage {
		return metrics.ContainerUsage{Name: name, Usage: metrics.Usage{At: now.Add(after), Window: after + time.Minute, CPU: 1, Memory: 1}}
	}
	var out []metrics.PodUsage
	for _, namespace := range []string{"b", "a"} {
		for _, name := range []string{"y", "x"} {
			out = append(out, metrics.PodUsage{Namespace: namespace, Name: name, Containers: []metrics.ContainerUsage{
				use("second", 2*time.Second), use("first", time.Second), use("third", 3*time.Second)}})
		}
	}
	return out, nil
}

func kindOf(t *testing.T, s metrics.Source, plural string) registry.Kind {
	t.Helper()
	for _, k := range metrics.Kinds(s) {
		if k.Plural == plural {
			return k
		}
	}
	t.Fatalf("no kind %s", plural)
	return registry.Kind{}
}

// TestReadOne: a read returns exactly the named object in its namespace, whatever else the source returns.
func TestReadOne(t *testing.T) {
	for _, tt := range []struct{ plural, namespace, name, want string }{
		{"nodes", "", "node-0", "/node-0"}, {"nodes", "", "node-1", "/node-1"}, {"nodes", "", "node-2", ""},
		{"pods", "a", "x", "a/x"}, {"pods", "b", "x", "b/x"}, {"pods", "b", "y", "b/y"}, {"pods", "c", "y", ""}, {"pods", "a", "z", ""},
	} {
		obj, err := kindOf(t, twins{}, tt.plural).Read.Get(t.Context(), tt.namespace, tt.name)
		got := ""
		if obj != nil {
			got = obj.GetNamespace() + "/" + obj.GetName()
		}
		if err != nil || got != tt.want {
			t.Errorf("%s %s/%s: %q, %v", tt.plural, tt.namespace, tt.name, got, err)
		}
	}
	for namespace, want := range map[string]string{"": "a/x a/y b/x b/y", "b": "b/x b/y", "c": ""} {
		list, err := kindOf(t, twins{}, "pods").Read.List(t.Context(), namespace)
		var got []string
		for _, obj := range list {
			got = append(got, obj.GetNamespace()+"/"+obj.GetName())
		}
		if err != nil || strings.Join(got, " ") != want {
			t.Errorf("pods of %q: %q, %v", namespace, got, err)
		}
	}
}

// TestTimeOfPod: a pod's metrics have the time and the window of the container that was measured first.
func TestTimeOfPod(t *testing.T) {
	obj, err := kindOf(t, twins{}, "pods").Read.Get(t.Context(), "a", "x")
	if err != nil {
		t.Fatal(err)
	}
	pod := obj.(*v1beta1.PodMetrics)
	if !pod.Timestamp.Time.Equal(now.Add(time.Second)) || pod.Window.Duration != time.Minute+time.Second || pod.Containers[0].Name != "second" {
		t.Errorf("pod %+v", pod)
	}
}

// nodesOf returns nodes with these names.
func nodesOf(names ...string) func() []*corev1.Node {
	return func() []*corev1.Node {
		var out []*corev1.Node
		for _, name := range names {
			out = append(out, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}})
		}
		return out
	}
}

func TestNoNodesToAsk(t *testing.T) {
	summary := func(context.Context, string) (*v1alpha1.Summary, error) { return &v1alpha1.Summary{}, nil }
	for name, s := range map[string]*metrics.Summaries{"no nodes": {Summary: summary}, "no summaries": {AllNodes: nodesOf("a")}} {
		if nodes, err := s.Nodes(t.Context()); err == nil {
			t.Errorf("%s: nodes %v", name, nodes)
		}
		if pods, err := s.Pods(t.Context(), ""); err == nil {
			t.Errorf("%s: pods %v", name, pods)
		}
	}
}

// TestResponseCache: a response is cached for Age and no longer, and a silent kubelet is waited for no longer than
// Timeout.
func TestResponseCache(t *testing.T) {
	for _, tt := range []struct {
		name              string
		age, timeout      time.Duration
		goodFor, waitsFor time.Duration
	}{
		{name: "by default", goodFor: 2 * time.Second, waitsFor: 5 * time.Second},
		{name: "as set", age: time.Minute, timeout: time.Hour, goodFor: time.Minute, waitsFor: time.Hour},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				asked := 0
				s := &metrics.Summaries{
					AllNodes: nodesOf("a"), Age: tt.age, Timeout: tt.timeout,
					Summary: func(context.Context, string) (*v1alpha1.Summary, error) { asked++; return &v1alpha1.Summary{}, nil },
				}
				ask := func(want int) {
					t.Helper()
					if _, err := s.Nodes(t.Context()); err != nil || asked != want {
						t.Errorf("asked %d times, want %d: %v", asked, want, err)
					}
				}
				ask(1)
				time.Sleep(tt.goodFor - 1)
				ask(1)
				time.Sleep(time.Nanosecond)
				ask(2)
				stuck := &metrics.Summaries{AllNodes: nodesOf("a"), Age: tt.age, Timeout: tt.timeout, Summary: func(ctx context.Context, _ string) (*v1alpha1.Summary, error) {
					<-ctx.Done()
					return nil, ctx.Err()
				}}
				begin := time.Now()
				if _, err := stuck.Nodes(t.Context()); err != nil || time.Since(begin) != tt.waitsFor {
					t.Errorf("waited %v: %v", time.Since(begin), err)
				}
			})
		})
	}
}

// TestManyNodes: no more than thirty-two kubelets are asked at once, and all are asked.
func TestManyNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var names []string
		for i := range 100 {
			names = append(names, fmt.Sprintf("n%02d", i))
		}
		var now, most, all atomic.Int32
		s := &metrics.Summaries{AllNodes: nodesOf(names...), Summary: func(context.Context, string) (*v1alpha1.Summary, error) {
			most.Store(max(most.Load(), now.Add(1)))
			time.Sleep(time.Second)
			now.Add(-1)
			all.Add(1)
			return &v1alpha1.Summary{}, nil
		}}
		if _, err := s.Nodes(t.Context()); err != nil || most.Load() != 32 || all.Load() != 100 {
			t.Errorf("asked %d, %d at once: %v", all.Load(), most.Load(), err)
		}
	})
}

// TestSilentKubelets: a kubelet without a response is logged, unless the caller has gone.
func TestSilentKubelets(t *testing.T) {
	var log bytes.Buffer
	ctx, cancel := context.WithCancel(t.Context())
	ending := false
	s := &metrics.Summaries{
		AllNodes: nodesOf("a"), Logger: slog.New(slog.NewTextHandler(&log, nil)),
		Summary: func(context.Context, string) (*v1alpha1.Summary, error) {
			if ending {
				cancel()
			}
			return nil, errors.New("connection refused")
		},
	}
	if nodes, err := s.Nodes(ctx); err != nil || len(nodes) != 0 {
		t.Errorf("nodes %v, %v", nodes, err)
	}
	if text := log.String(); !strings.Contains(text, "node=a") || !strings.Contains(text, "connection refused") {
		t.Errorf("logged %q", text)
	}
	log.Reset()
	ending, s.Age = true, time.Nanosecond
	if nodes, err := s.Nodes(ctx); !errors.Is(err, context.Canceled) || log.Len() != 0 {
		t.Errorf("nodes %v, %v; logged %q", nodes, err, &log)
	}
}

// TestPartsOfUsage: without CPU or memory the usage is unknown, and a pod's is unknown if a container's is.
func TestPartsOfUsage(t *testing.T) {
	at, n := metav1.NewTime(now), func(v uint64) *uint64 { return &v }
	cpu, memory := &v1alpha1.CPUStats{Time: at, UsageNanoCores: n(1)}, &v1alpha1.MemoryStats{WorkingSetBytes: n(2)}
	for name, tt := range map[string]struct {
		cpu    *v1alpha1.CPUStats
		memory *v1alpha1.MemoryStats
		known  bool
	}{
		"all": {cpu, memory, true}, "no CPU": {nil, memory, false}, "no memory": {cpu, nil, false},
		"no rate": {&v1alpha1.CPUStats{Time: at}, memory, false}, "no working set": {cpu, &v1alpha1.MemoryStats{}, false},
	} {
		pod := func(namespace string) v1alpha1.PodStats {
			return v1alpha1.PodStats{
				PodRef:     v1alpha1.PodReference{Name: "p", Namespace: namespace},
				Containers: []v1alpha1.ContainerStats{{Name: "good", CPU: cpu, Memory: memory}, {Name: "c", CPU: tt.cpu, Memory: tt.memory}},
			}
		}
		s := &metrics.Summaries{AllNodes: nodesOf("a"), Window: time.Minute, Summary: func(context.Context, string) (*v1alpha1.Summary, error) {
			return &v1alpha1.Summary{Node: v1alpha1.NodeStats{CPU: tt.cpu, Memory: tt.memory}, Pods: []v1alpha1.PodStats{pod("x"), pod("y")}}, nil
		}}
		nodes, err := s.Nodes(t.Context())
		if err != nil || (len(nodes) == 1) != tt.known || tt.known && (nodes[0].Window != time.Minute || nodes[0].At != now) {
			t.Errorf("%s: nodes %+v, %v", name, nodes, err)
		}
		for namespace, want := range map[string][]string{"": {"x", "y"}, "x": {"x"}, "z": nil} {
			pods, err := s.Pods(t.Context(), namespace)
			var got []string
			for _, p := range pods {
				got = append(got, p.Namespace)
			}
			if !tt.known {
				want = nil
			}
			if err != nil || !slices.Equal(got, want) {
				t.Errorf("%s: pods of %q in %v, %v", name, namespace, got, err)
			}
		}
	}
}
