package metrics

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-dev/keelson/apiserver"
	"github.com/keelson-dev/keelson/apiserver/audit"
)

// What is counted elsewhere, or kept as a number, and made a metric when it is asked for.

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, labels, nil)
}

// objects are the numbers of stored objects.
type objects struct {
	count func() map[schema.GroupResource]int
}

func (o objects) descs() (byGroup, old *prometheus.Desc) {
	return desc("apiserver_resource_objects", "[ALPHA] Number of stored objects, by resource.", "group", "resource"),
		desc("apiserver_storage_objects", "[STABLE] Number of stored objects, by resource; apiserver_resource_objects has the group apart.", "resource")
}

func (o objects) Describe(c chan<- *prometheus.Desc) {
	byGroup, old := o.descs()
	c <- byGroup
	c <- old
}

func (o objects) Collect(c chan<- prometheus.Metric) {
	byGroup, old := o.descs()
	for gr, n := range o.count() {
		c <- prometheus.MustNewConstMetric(byGroup, prometheus.GaugeValue, float64(n), gr.Group, gr.Resource)
		c <- prometheus.MustNewConstMetric(old, prometheus.GaugeValue, float64(n), gr.String())
	}
}

// audited are the figures of an audit log.
type audited struct{ stats func() audit.Stats }

func (a audited) leftOut() *prometheus.Desc {
	return desc("apiserver_audit_left_out_total", "[ALPHA] Number of audit events of unauthenticated requests that were left out, beyond what is recorded of such.")
}

func (a audited) descs() (events, failures, levels, rejected *prometheus.Desc) {
	return desc("apiserver_audit_event_total", "[ALPHA] Number of audit events made."),
		desc("apiserver_audit_error_total", "[ALPHA] Number of audit events that were not stored.", "plugin"),
		desc("apiserver_audit_level_total", "[ALPHA] Number of requests, by the level at which the audit policy wants them.", "level"),
		desc("apiserver_audit_requests_rejected_total", "[ALPHA] Number of requests that failed because their audit event was not stored.")
}

func (a audited) Describe(c chan<- *prometheus.Desc) {
	events, failures, levels, rejected := a.descs()
	for _, d := range []*prometheus.Desc{events, failures, levels, rejected, a.leftOut()} {
		c <- d
	}
}

func (a audited) Collect(c chan<- prometheus.Metric) {
	events, failures, levels, rejected := a.descs()
	s := a.stats()
	c <- prometheus.MustNewConstMetric(events, prometheus.CounterValue, float64(s.Events))
	c <- prometheus.MustNewConstMetric(rejected, prometheus.CounterValue, float64(s.Rejected))
	if s.LeftOut > 0 {
		c <- prometheus.MustNewConstMetric(a.leftOut(), prometheus.CounterValue, float64(s.LeftOut))
	}
	plugins := map[string]int64{"log": s.Failures}
	for plugin, n := range s.Plugins {
		plugins[plugin] += n
	}
	for plugin, n := range plugins {
		if n > 0 {
			c <- prometheus.MustNewConstMetric(failures, prometheus.CounterValue, float64(n), plugin)
		}
	}
	for level, n := range s.Levels {
		if n > 0 {
			c <- prometheus.MustNewConstMetric(levels, prometheus.CounterValue, float64(n), level)
		}
	}
}

// inflight counts the requests that are being served. Upstream reports the maximum of the last second; this is the maximum
// since the metrics were last read.
type inflight struct {
	mu                 sync.Mutex
	readOnly, mutating level
}

type level struct{ now, most int }

func (i *inflight) began(o *apiserver.Observation) {
	if o.LongRunning {
		return
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	l := i.of(o)
	l.now++
	l.most = max(l.most, l.now)
}

func (i *inflight) ended(o *apiserver.Observation) {
	if o.LongRunning || !o.Began {
		return
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.of(o).now--
}

func (i *inflight) of(o *apiserver.Observation) *level {
	if o.Request.ReadOnly() {
		return &i.readOnly
	}
	return &i.mutating
}

func (i *inflight) desc() *prometheus.Desc {
	return desc("apiserver_current_inflight_requests", "[STABLE] Largest number of requests served at a time since the metrics were last read, by kind.", "request_kind")
}

// Describe implements prometheus.Collector.
func (i *inflight) Describe(c chan<- *prometheus.Desc) { c <- i.desc() }

// Collect implements prometheus.Collector.
func (i *inflight) Collect(c chan<- prometheus.Metric) {
	i.mu.Lock()
	readOnly, mutating := i.readOnly.most, i.mutating.most
	i.readOnly.most, i.mutating.most = i.readOnly.now, i.mutating.now
	i.mu.Unlock()
	d := i.desc()
	c <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(readOnly), "readOnly")
	c <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(mutating), "mutating")
}
