package stats

import (
	"net/http"
	"time"

	"k8s.io/kubelet/pkg/apis/stats/v1alpha1"

	"github.com/keelson-dev/keelson/kubelet/stats/internal/text"
)

// ResourceMetrics serves /metrics/resource: CPU, memory and swap of the node, pods and containers, under upstream's
// stable names.
func (c *Collector) ResourceMetrics() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var out text.Writer
		summary, err := c.Resources(r.Context())
		if err != nil {
			c.log.Warn("collecting resource metrics failed", "error", err)
		} else {
			writeResources(&out, summary)
		}
		failed := 0.0
		if err != nil {
			failed = 1
		}
		out.Metric("resource_scrape_error", text.Gauge, "[STABLE] 1 if there was an error while getting container metrics, 0 otherwise")
		out.Sample(failed)
		out.Metric("scrape_error", text.Gauge, "[ALPHA] (Deprecated since 1.29.0) 1 if there was an error while getting container metrics, 0 otherwise")
		out.Sample(failed)
		send(w, &out)
	})
}

func send(w http.ResponseWriter, out *text.Writer) {
	w.Header().Set("Content-Type", text.ContentType)
	_, _ = w.Write(out.Bytes()) // fails only if the client is gone
}

// amounts is what a node, a pod or a container uses.
type amounts struct {
	cpu    *v1alpha1.CPUStats
	memory *v1alpha1.MemoryStats
	swap   *v1alpha1.SwapStats
	start  time.Time
}

func cpuSeconds(a amounts) (float64, time.Time, bool) {
	if a.cpu == nil {
		return 0, time.Time{}, false
	}
	return float64(*a.cpu.UsageCoreNanoSeconds) / float64(time.Second), a.cpu.Time.Time, true
}

func workingSet(a amounts) (float64, time.Time, bool) {
	if a.memory == nil {
		return 0, time.Time{}, false
	}
	return float64(*a.memory.WorkingSetBytes), a.memory.Time.Time, true
}

func swapUsed(a amounts) (float64, time.Time, bool) {
	if a.swap == nil {
		return 0, time.Time{}, false
	}
	return float64(*a.swap.SwapUsageBytes), a.swap.Time.Time, true
}

func swapLimit(a amounts) (float64, time.Time, bool) {
	if a.swap == nil {
		return 0, time.Time{}, false
	}
	return float64(*plus(a.swap.SwapAvailableBytes, a.swap.SwapUsageBytes)), a.swap.Time.Time, true
}

func startSeconds(a amounts) (float64, time.Time, bool) {
	return float64(a.start.UnixNano()) / float64(time.Second), time.Time{}, a.start.Unix() > 0
}

// labelled is amounts with the labels of their samples.
type labelled struct {
	amounts
	labels []string
}

func writeResources(w *text.Writer, summary *v1alpha1.Summary) {
	node := []labelled{{amounts: amounts{cpu: summary.Node.CPU, memory: summary.Node.Memory, swap: summary.Node.Swap}}}
	var pods, containers []labelled
	for i := range summary.Pods {
		pod := &summary.Pods[i]
		at := []string{"namespace", pod.PodRef.Namespace, "pod", pod.PodRef.Name}
		pods = append(pods, labelled{amounts{cpu: pod.CPU, memory: pod.Memory, swap: pod.Swap}, at})
		for j := range pod.Containers {
			c := &pod.Containers[j]
			containers = append(containers, labelled{
				amounts{cpu: c.CPU, memory: c.Memory, swap: c.Swap, start: c.StartTime.Time}, append([]string{"container", c.Name}, at...),
			})
		}
	}
	for _, m := range []struct {
		name, kind, help string
		of               []labelled
		value            func(amounts) (float64, time.Time, bool)
	}{
		{"container_cpu_usage_seconds_total", text.Counter, "[STABLE] Cumulative cpu time consumed by the container in core-seconds", containers, cpuSeconds},
		{"container_memory_working_set_bytes", text.Gauge, "[STABLE] Current working set of the container in bytes", containers, workingSet},
		{"container_start_time_seconds", text.Gauge, "[STABLE] Start time of the container since unix epoch in seconds", containers, startSeconds},
		{"container_swap_limit_bytes", text.Gauge, "[ALPHA] Current amount of the container swap limit in bytes. Reported only on non-windows systems", containers, swapLimit},
		{"container_swap_usage_bytes", text.Gauge, "[ALPHA] Current amount of the container swap usage in bytes. Reported only on non-windows systems", containers, swapUsed},
		{"node_cpu_usage_seconds_total", text.Counter, "[STABLE] Cumulative cpu time consumed by the node in core-seconds", node, cpuSeconds},
		{"node_memory_working_set_bytes", text.Gauge, "[STABLE] Current working set of the node in bytes", node, workingSet},
		{"node_swap_usage_bytes", text.Gauge, "[ALPHA] Current swap usage of the node in bytes. Reported only on non-windows systems", node, swapUsed},
		{"pod_cpu_usage_seconds_total", text.Counter, "[STABLE] Cumulative cpu time consumed by the pod in core-seconds", pods, cpuSeconds},
		{"pod_memory_working_set_bytes", text.Gauge, "[STABLE] Current working set of the pod in bytes", pods, workingSet},
		{"pod_swap_usage_bytes", text.Gauge, "[ALPHA] Current amount of the pod swap usage in bytes. Reported only on non-windows systems", pods, swapUsed},
	} {
		described := false
		for _, one := range m.of {
			value, at, ok := m.value(one.amounts)
			if !ok {
				continue
			}
			if !described {
				w.Metric(m.name, m.kind, m.help)
				described = true
			}
			w.SampleAt(at, value, one.labels...)
		}
	}
}
