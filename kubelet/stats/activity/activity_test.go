package activity_test

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/keelson-dev/keelson/kubelet/stats/activity"
)

func read(m *activity.Metrics) []byte {
	w := httptest.NewRecorder()
	m.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	return w.Body.Bytes()
}

func TestMetrics(t *testing.T) {
	m := activity.New(`node "0"`, func() activity.Counts {
		return activity.Counts{Pods: 3, Containers: map[string]int{"running": 4, "exited": 1}}
	})
	created := time.Unix(1000, 0)
	m.PodStarted(activity.Start{Created: created, Seen: created.Add(time.Second), Running: created.Add(3 * time.Second), Excluded: time.Second})
	m.PodStarted(activity.Start{Created: created, Seen: created, Running: created.Add(2 * time.Hour)})
	m.ContainerStarted("container", "")
	m.ContainerStarted("init_container", "ErrImagePull")
	m.PodSynced("sync", 20*time.Millisecond)
	m.RuntimeOperation("run_podsandbox", time.Second, nil)
	m.RuntimeOperation("run_podsandbox", time.Second, errors.New("no"))
	m.Evicted("memory.available")
	m.ImageCollected("age")
	m.Rejected("OutOfcpu")
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(read(m)))
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]float64{
		"kubelet_node_name": 1, "kubelet_running_pods": 3, "kubelet_started_pods_total": 2, "kubelet_started_containers_errors_total": 1,
		"kubelet_runtime_operations_total": 2, "kubelet_runtime_operations_errors_total": 1, "kubelet_evictions": 1,
		"kubelet_image_garbage_collected_total": 1, "kubelet_admission_rejections_total": 1,
	} {
		f := families[name]
		if f == nil || len(f.GetMetric()) != 1 {
			t.Errorf("%s: %v", name, f)
			continue
		}
		if got := f.GetMetric()[0].GetCounter().GetValue() + f.GetMetric()[0].GetGauge().GetValue(); got != want {
			t.Errorf("%s is %v, not %v", name, got, want)
		}
	}
	if got := families["kubelet_node_name"].GetMetric()[0].GetLabel()[0].GetValue(); got != `node "0"` {
		t.Errorf("the node's name: %s", got)
	}
	for name, want := range map[string][3]float64{ // sum, count, up to 2 s
		"kubelet_pod_start_duration_seconds":     {7202, 2, 1},
		"kubelet_pod_start_sli_duration_seconds": {7202, 2, 1},
	} {
		h := families[name].GetMetric()[0].GetHistogram()
		got := [3]float64{h.GetSampleSum(), float64(h.GetSampleCount()), float64(h.GetBucket()[2].GetCumulativeCount())}
		if got != want {
			t.Errorf("%s: %v, not %v", name, got, want)
		}
	}
}

func Example() {
	m := activity.New("node-0", nil)
	m.Evicted("memory.available")
	for line := range strings.Lines(string(read(m))) {
		if strings.HasPrefix(line, "kubelet_evictions") {
			fmt.Print(line)
		}
	}
	// Output: kubelet_evictions{eviction_signal="memory.available"} 1
}

// The exact output after some calls, except for the help texts.
func TestText(t *testing.T) {
	created := time.Unix(1000, 0)
	tests := map[string]struct {
		tell func(*activity.Metrics)
		want string
	}{
		"nothing": {func(*activity.Metrics) {}, ""},
		"a container": {
			func(m *activity.Metrics) {
				m.ContainerStarted("container", "")
				m.ContainerStarted("container", "")
				m.ContainerStarted("init_container", "ErrImagePull")
			},
			`# TYPE kubelet_started_containers_total counter
kubelet_started_containers_total{container_type="container"} 2
kubelet_started_containers_total{container_type="init_container"} 1
# TYPE kubelet_started_containers_errors_total counter
kubelet_started_containers_errors_total{code="ErrImagePull"} 1
`,
		},
		"a call": {
			func(m *activity.Metrics) { m.RuntimeOperation("version", 30*time.Millisecond, nil) },
			`# TYPE kubelet_runtime_operations_duration_seconds histogram
kubelet_runtime_operations_duration_seconds_bucket{operation_type="version",le="0.005"} 0
kubelet_runtime_operations_duration_seconds_bucket{operation_type="version",le="0.0125"} 0
kubelet_runtime_operations_duration_seconds_bucket{operation_type="version",le="0.03125"} 1
kubelet_runtime_operations_duration_seconds_bucket{operation_type="version",le="0.078125"} 1
kubelet_runtime_operations_duration_seconds_bucket{operation_type="version",le="0.1953125"} 1
kubelet_runtime_operations_duration_seconds_bucket{operation_type="version",le="0.48828125"} 1
kubelet_runtime_operations_duration_seconds_bucket{operation_type="version",le="1.220703125"} 1
kubelet_runtime_operations_duration_seconds_bucket{operation_type="version",le="3.0517578125"} 1
kubelet_runtime_operations_duration_seconds_bucket{operation_type="version",le="7.62939453125"} 1
kubelet_runtime_operations_duration_seconds_bucket{operation_type="version",le="19.073486328125"} 1
kubelet_runtime_operations_duration_seconds_bucket{operation_type="version",le="47.6837158203125"} 1
kubelet_runtime_operations_duration_seconds_bucket{operation_type="version",le="119.20928955078125"} 1
kubelet_runtime_operations_duration_seconds_bucket{operation_type="version",le="298.0232238769531"} 1
kubelet_runtime_operations_duration_seconds_bucket{operation_type="version",le="745.0580596923828"} 1
kubelet_runtime_operations_duration_seconds_bucket{operation_type="version",le="+Inf"} 1
kubelet_runtime_operations_duration_seconds_sum{operation_type="version"} 0.03
kubelet_runtime_operations_duration_seconds_count{operation_type="version"} 1
# TYPE kubelet_runtime_operations_total counter
kubelet_runtime_operations_total{operation_type="version"} 1
`,
		},
		"a sync": {
			func(m *activity.Metrics) {
				m.PodSynced("create", 5*time.Millisecond)
				m.PodSynced("create", 11*time.Second)
				m.PodSynced("create", -time.Second) // the clock was turned back
			},
			`# TYPE kubelet_pod_worker_duration_seconds histogram
kubelet_pod_worker_duration_seconds_bucket{operation_type="create",le="0.005"} 2
kubelet_pod_worker_duration_seconds_bucket{operation_type="create",le="0.01"} 2
kubelet_pod_worker_duration_seconds_bucket{operation_type="create",le="0.025"} 2
kubelet_pod_worker_duration_seconds_bucket{operation_type="create",le="0.05"} 2
kubelet_pod_worker_duration_seconds_bucket{operation_type="create",le="0.1"} 2
kubelet_pod_worker_duration_seconds_bucket{operation_type="create",le="0.25"} 2
kubelet_pod_worker_duration_seconds_bucket{operation_type="create",le="0.5"} 2
kubelet_pod_worker_duration_seconds_bucket{operation_type="create",le="1"} 2
kubelet_pod_worker_duration_seconds_bucket{operation_type="create",le="2.5"} 2
kubelet_pod_worker_duration_seconds_bucket{operation_type="create",le="5"} 2
kubelet_pod_worker_duration_seconds_bucket{operation_type="create",le="10"} 2
kubelet_pod_worker_duration_seconds_bucket{operation_type="create",le="+Inf"} 3
kubelet_pod_worker_duration_seconds_sum{operation_type="create"} 11.005
kubelet_pod_worker_duration_seconds_count{operation_type="create"} 3
`,
		},
		"a pod": {
			func(m *activity.Metrics) {
				m.PodStarted(activity.Start{Created: created, Seen: created.Add(time.Second), Running: created.Add(9 * time.Second), Excluded: 3 * time.Second})
			},
			starts("duration", 8, 8) + starts("sli_duration", 6, 6) + starts("total_duration", 9, 10) + `# TYPE kubelet_started_pods_total counter
kubelet_started_pods_total 1
`,
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			m := activity.New("n", nil)
			tt.tell(m)
			var got strings.Builder
			for line := range strings.Lines(string(read(m))) {
				if !strings.HasPrefix(line, "# HELP") && !strings.Contains(line, "kubelet_node_name") {
					got.WriteString(line)
				}
			}
			if got.String() != tt.want {
				t.Errorf("got\n%s\nwant\n%s", got.String(), tt.want)
			}
		})
	}
}

// starts is the histogram of one start of that duration, which is in the buckets from the given one on.
func starts(name string, took, first float64) string {
	var b strings.Builder
	name = "kubelet_pod_start_" + name + "_seconds"
	fmt.Fprintf(&b, "# TYPE %s histogram\n", name)
	for _, bucket := range []float64{
		0.5, 1, 2, 3, 4, 5, 6, 8, 10, 20, 30, 45, 60, 120, 180, 240, 300, 360, 480, 600, 900, 1200, 1800, 2700, 3600,
	} {
		n := 0
		if bucket >= first {
			n = 1
		}
		fmt.Fprintf(&b, "%s_bucket{le=\"%v\"} %d\n", name, bucket, n)
	}
	fmt.Fprintf(&b, "%s_bucket{le=\"+Inf\"} 1\n%s_sum %v\n%s_count 1\n", name, name, took, name)
	return b.String()
}

// Containers are counted by state, with the content type that scrapers expect.
func TestCounts(t *testing.T) {
	m := activity.New("n", func() activity.Counts {
		return activity.Counts{Pods: 3, Containers: map[string]int{"running": 4, "exited": 1}}
	})
	w := httptest.NewRecorder()
	m.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	if got := w.Header().Get("Content-Type"); got != "text/plain; version=0.0.4; charset=utf-8" {
		t.Errorf("the type is %q", got)
	}
	want := `# HELP kubelet_running_containers [ALPHA] Number of containers currently running
# TYPE kubelet_running_containers gauge
kubelet_running_containers{container_state="exited"} 1
kubelet_running_containers{container_state="running"} 4
# HELP kubelet_running_pods [ALPHA] Number of pods that have a running pod sandbox
# TYPE kubelet_running_pods gauge
kubelet_running_pods 3
`
	if got := w.Body.String(); !strings.HasSuffix(got, want) {
		t.Errorf("got\n%s", got)
	}
}
