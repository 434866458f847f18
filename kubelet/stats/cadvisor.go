package stats

import (
	"net/http"
	"path"
	"time"

	"github.com/keelson-dev/keelson/cri"
	"github.com/keelson-dev/keelson/kubelet/stats/internal/text"
)

// ContainerMetrics serves /metrics/cadvisor: the metrics of cAdvisor that dashboards commonly use, with its labels.
// Samples of pods have neither container nor image.
func (c *Collector) ContainerMetrics() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s, err := c.gather(r.Context())
		if err != nil {
			c.log.Warn("collecting container metrics failed", "error", err)
			http.Error(w, "collecting container metrics failed", http.StatusInternalServerError)
			return
		}
		var out text.Writer
		writeContainers(&out, s)
		send(w, &out)
	})
}

// member is a pod or container with the labels of its samples.
type member struct {
	labels  []string
	cpu     cri.CPUUsage
	memory  cri.MemoryUsage
	layer   cri.FilesystemUsage
	swap    cri.SwapUsage
	started time.Time
}

func members(s *snapshot) []member {
	var out []member
	for i := range s.pods {
		pod := &s.pods[i]
		of := func(container, id, image string) []string {
			return []string{
				"container", container, "id", path.Join("/kubepods", "pod"+pod.sandbox.Metadata.UID, id), "image", image, "name", id,
				"namespace", pod.sandbox.Metadata.Namespace, "pod", pod.sandbox.Metadata.Name,
			}
		}
		out = append(out, member{labels: of("", "", ""), cpu: pod.stats.CPU, memory: pod.stats.Memory, started: pod.sandbox.CreatedAt})
		for _, c := range pod.containers {
			out = append(out, member{
				labels: of(c.container.Metadata.Name, c.container.ID, c.container.Image.Image),
				cpu:    c.stats.CPU, memory: c.stats.Memory, layer: c.stats.WritableLayer, swap: c.stats.Swap, started: c.container.CreatedAt,
			})
		}
	}
	return out
}

func writeContainers(w *text.Writer, s *snapshot) {
	list := members(s)
	memory := func(value func(cri.MemoryUsage) uint64) func(member) (float64, time.Time) {
		return func(m member) (float64, time.Time) { return float64(value(m.memory)), m.memory.At }
	}
	for _, metric := range []struct {
		name, kind, help string
		value            func(member) (float64, time.Time)
	}{
		{"container_cpu_usage_seconds_total", text.Counter, "Cumulative cpu time consumed in seconds.", func(m member) (float64, time.Time) {
			return float64(m.cpu.CoreNanoSeconds) / float64(time.Second), m.cpu.At
		}},
		{"container_fs_usage_bytes", text.Gauge, "Number of bytes that are consumed by the container on this filesystem.", func(m member) (float64, time.Time) {
			return float64(m.layer.UsedBytes), m.layer.At
		}},
		{"container_last_seen", text.Gauge, "Last time a container was seen by the exporter", func(member) (float64, time.Time) {
			return float64(s.at.Unix()), s.at
		}},
		{"container_memory_rss", text.Gauge, "Size of RSS in bytes.", memory(func(m cri.MemoryUsage) uint64 { return m.RSS })},
		{"container_memory_swap", text.Gauge, "Container swap usage in bytes.", func(m member) (float64, time.Time) {
			return float64(m.swap.Used), m.swap.At
		}},
		{"container_memory_usage_bytes", text.Gauge, "Current memory usage in bytes, including all memory regardless of when it was accessed",
			memory(func(m cri.MemoryUsage) uint64 { return m.Usage })},
		{"container_memory_working_set_bytes", text.Gauge, "Current working set in bytes.",
			memory(func(m cri.MemoryUsage) uint64 { return m.WorkingSet })},
		{"container_start_time_seconds", text.Gauge, "Start time of the container since unix epoch in seconds.", func(m member) (float64, time.Time) {
			return float64(m.started.Unix()), m.started
		}},
	} {
		w.Metric(metric.name, metric.kind, metric.help)
		for _, m := range list {
			value, at := metric.value(m)
			if at.IsZero() {
				continue
			}
			labels := m.labels
			if metric.name == "container_cpu_usage_seconds_total" {
				labels = append([]string{"cpu", "total"}, labels...)
			}
			if metric.name == "container_start_time_seconds" {
				at = s.at
			}
			w.SampleAt(at, value, labels...)
		}
	}
	writeNetwork(w, s)
	w.Metric("machine_scrape_error", text.Gauge, "1 if there was an error while getting machine metrics, 0 otherwise.")
	w.Sample(0)
}

func writeNetwork(w *text.Writer, s *snapshot) {
	for _, metric := range []struct {
		name, help string
		value      func(cri.InterfaceUsage) uint64
	}{
		{"container_network_receive_bytes_total", "Cumulative count of bytes received", func(i cri.InterfaceUsage) uint64 { return i.RxBytes }},
		{"container_network_receive_errors_total", "Cumulative count of errors encountered while receiving", func(i cri.InterfaceUsage) uint64 { return i.RxErrors }},
		{"container_network_transmit_bytes_total", "Cumulative count of bytes transmitted", func(i cri.InterfaceUsage) uint64 { return i.TxBytes }},
		{"container_network_transmit_errors_total", "Cumulative count of errors encountered while transmitting", func(i cri.InterfaceUsage) uint64 { return i.TxErrors }},
	} {
		w.Metric(metric.name, text.Counter, metric.help)
		for i := range s.pods {
			pod := &s.pods[i]
			for _, one := range pod.stats.Network {
				w.SampleAt(pod.stats.NetworkAt, float64(metric.value(one)),
					"interface", one.Name, "namespace", pod.sandbox.Metadata.Namespace, "pod", pod.sandbox.Metadata.Name)
			}
		}
	}
}
