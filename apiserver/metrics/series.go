package metrics

import (
	"slices"
	"sort"
	"strconv"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// series count requests by what they ask for, in a few hundred bytes each: Prometheus' own vectors take several times as
// much. They become metrics when they are collected.
type series struct {
	mu sync.Mutex
	by map[key]*counts

	bounds
	total, terminations, durations, sli, sizes, bodies *prometheus.Desc
}

// key is the values of the labels of one series.
type key struct {
	target
	dryRun string
}

type counts struct {
	codes, terminations []coded
	duration            histogram
	size                *histogram // of responses, where that is counted
	body                *histogram // of requests
}

type coded struct {
	code int
	n    uint64
}

func count(in []coded, code int) []coded {
	for i := range in {
		if in[i].code == code {
			in[i].n++
			return in
		}
	}
	return append(in, coded{code, 1})
}

// histogram counts values by the bucket they fall into, the last of which has no bound.
type histogram struct {
	n   []uint64
	sum float64
}

func (h *histogram) observe(bounds []float64, v float64) {
	if h.n == nil {
		h.n = make([]uint64, len(bounds)+1)
	}
	h.n[sort.SearchFloat64s(bounds, v)]++
	h.sum += v
}

func (h *histogram) add(more *histogram) {
	if h.n == nil {
		h.n = make([]uint64, len(more.n))
	}
	for i, n := range more.n {
		h.n[i] += n
	}
	h.sum += more.sum
}

// metric is the histogram with the bounds from the skipped one on.
func (h *histogram) metric(d *prometheus.Desc, bounds []float64, skip int, labels ...string) prometheus.Metric {
	buckets := make(map[float64]uint64, len(bounds)-skip)
	total := uint64(0)
	for i, n := range h.n {
		total += n
		if i >= skip && i < len(bounds) {
			buckets[bounds[i]] = total
		}
	}
	return prometheus.MustNewConstHistogram(d, total, h.sum, buckets, labels...)
}

// bounds are those of upstream's histograms, in seconds and bytes.
type bounds struct{ duration, size, body []float64 }

// sliSkips is how many bounds of durations apiserver_request_sli_duration_seconds leaves out.
const sliSkips = 2

func newSeries() *series {
	labels := []string{"verb", "group", "version", "resource", "subresource", "scope", "component"}
	dry := append(slices.Clone(labels), "dry_run")
	return &series{
		by: map[key]*counts{},
		bounds: bounds{
			duration: []float64{0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2, 3, 4, 5, 6, 8, 10, 15, 20, 30, 45, 60},
			size:     prometheus.ExponentialBuckets(1000, 10, 7),
			body:     prometheus.LinearBuckets(50000, 100000, 31),
		},
		total:        desc("apiserver_request_total", "[STABLE] Number of requests, by what they asked for and HTTP code.", append(slices.Clone(dry), "code")...),
		terminations: desc("apiserver_request_terminations_total", "[ALPHA] Number of requests that were ended in self-defense: timed out, or too many.", append(slices.Clone(labels), "code")...),
		durations:    desc("apiserver_request_duration_seconds", "[STABLE] Time from a request to the end of its response, by what it asked for.", dry...),
		sli:          desc("apiserver_request_sli_duration_seconds", "[ALPHA] Time from a request to the end of its response, without dry runs.", labels...),
		sizes:        desc("apiserver_response_sizes", "[STABLE] Size of responses to gets and lists, in bytes.", labels...),
		bodies:       desc("apiserver_request_body_size_bytes", "[ALPHA] Size of request bodies, in bytes.", "group", "resource", "verb"),
	}
}

// update changes the counts of one key.
func (s *series) update(k key, change func(c *counts)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.by[k]
	if c == nil {
		c = &counts{}
		s.by[k] = c
	}
	change(c)
}

// Describe implements prometheus.Collector.
func (s *series) Describe(c chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{s.total, s.terminations, s.durations, s.sli, s.sizes, s.bodies} {
		c <- d
	}
}

// Collect implements prometheus.Collector.
func (s *series) Collect(c chan<- prometheus.Metric) {
	for _, m := range s.metrics() {
		c <- m
	}
}

// bodyKey is the values of the labels of body sizes, which are counted by resource and verb alone.
type bodyKey struct{ group, resource, verb string }

// sums are what is reported with fewer labels than it is counted by.
type sums struct {
	terminations map[target]map[int]uint64
	sizes        map[target]*histogram
	bodies       map[bodyKey]*histogram
}

func (s *series) metrics() []prometheus.Metric {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []prometheus.Metric
	all := sums{map[target]map[int]uint64{}, map[target]*histogram{}, map[bodyKey]*histogram{}}
	for k, c := range s.by {
		labels := append(k.values(), k.dryRun)
		for _, of := range c.codes {
			out = append(out, prometheus.MustNewConstMetric(s.total, prometheus.CounterValue, float64(of.n), append(slices.Clone(labels), strconv.Itoa(of.code))...))
		}
		if c.duration.n != nil {
			out = append(out, c.duration.metric(s.durations, s.bounds.duration, 0, labels...))
			if k.dryRun == "" {
				out = append(out, c.duration.metric(s.sli, s.bounds.duration, sliSkips, k.values()...))
			}
		}
		all.add(k, c)
	}
	for t, codes := range all.terminations {
		for code, n := range codes {
			out = append(out, prometheus.MustNewConstMetric(s.terminations, prometheus.CounterValue, float64(n), append(t.values(), strconv.Itoa(code))...))
		}
	}
	for t, h := range all.sizes {
		out = append(out, h.metric(s.sizes, s.bounds.size, 0, t.values()...))
	}
	for k, h := range all.bodies {
		out = append(out, h.metric(s.bodies, s.bounds.body, 0, k.group, k.resource, k.verb))
	}
	return out
}

func (a *sums) add(k key, c *counts) {
	for _, of := range c.terminations {
		if a.terminations[k.target] == nil {
			a.terminations[k.target] = map[int]uint64{}
		}
		a.terminations[k.target][of.code] += of.n
	}
	if c.size != nil {
		sum(a.sizes, k.target, c.size)
	}
	if c.body != nil {
		sum(a.bodies, bodyKey{k.group, k.resource, bodyVerb(&k.target)}, c.body)
	}
}

func sum[K comparable](in map[K]*histogram, k K, h *histogram) {
	if in[k] == nil {
		in[k] = &histogram{}
	}
	in[k].add(h)
}

// bodyVerb is the verb in the metric of body sizes; empty for one whose requests have no body.
func bodyVerb(t *target) string {
	switch t.verb {
	case "POST":
		return "create"
	case "PUT":
		return "update"
	case "PATCH", "APPLY":
		return "patch"
	case "DELETE":
		if t.scope == "resource" {
			return "delete"
		}
		return "delete_collection"
	}
	return ""
}
