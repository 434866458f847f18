package activity

import (
	"maps"
	"slices"

	"github.com/keelson-dev/keelson/kubelet/stats/internal/text"
)

// family is one metric with at most one label.
type family struct {
	name, kind, help, label string
	buckets                 []float64
	values                  map[string]*value // by the label's value
}

// value is a sum and, for a histogram, also the number of observations per bucket.
type value struct {
	sum    float64
	count  uint64
	counts []uint64 // without those above the last bucket
}

func (m *Metrics) add(name, label string, amount float64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f := m.byName[name]
	v := f.values[label]
	if v == nil {
		v = &value{counts: make([]uint64, len(f.buckets))}
		f.values[label] = v
	}
	v.sum += amount
	v.count++
	if i, _ := slices.BinarySearch(f.buckets, amount); i < len(f.buckets) {
		v.counts[i]++
	}
}

// write writes the metrics in the text format.
func (m *Metrics) write(out *text.Writer) {
	var counts Counts
	if m.counts != nil {
		counts = m.counts()
	}
	m.mu.Lock()
	for _, f := range m.families {
		f.write(out)
	}
	m.mu.Unlock()
	if m.counts == nil {
		return
	}
	out.Metric("kubelet_running_containers", text.Gauge, "[ALPHA] Number of containers currently running")
	for _, state := range slices.Sorted(maps.Keys(counts.Containers)) {
		out.Sample(float64(counts.Containers[state]), "container_state", state)
	}
	out.Metric("kubelet_running_pods", text.Gauge, "[ALPHA] Number of pods that have a running pod sandbox")
	out.Sample(float64(counts.Pods))
}

func (f *family) write(out *text.Writer) {
	if len(f.values) == 0 {
		return
	}
	out.Metric(f.name, f.kind, f.help)
	for _, label := range slices.Sorted(maps.Keys(f.values)) {
		var labels []string
		if f.label != "" {
			labels = []string{f.label, label}
		}
		v := f.values[label]
		if f.kind != text.Histogram {
			out.Sample(v.sum, labels...)
			continue
		}
		sum := uint64(0)
		for i, bound := range f.buckets {
			sum += v.counts[i]
			out.Part("_bucket", float64(sum), append(slices.Clone(labels), "le", text.Number(bound))...)
		}
		out.Part("_bucket", float64(v.count), append(slices.Clone(labels), "le", "+Inf")...)
		out.Part("_sum", v.sum, labels...)
		out.Part("_count", float64(v.count), labels...)
	}
}
