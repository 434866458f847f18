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
