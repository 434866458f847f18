// Package metrics has upstream's metrics of API Priority and Fairness for Prometheus: apiserver_flowcontrol_*.
//
// Those that describe how upstream's queues count virtual time, and the histograms of utilization at the end of every
// nanosecond, are not there.
package metrics

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/keelson-dev/keelson/flowcontrol/fairqueuing"
)

const prefix = "apiserver_flowcontrol_"

// Metrics counts what a fairqueuing.Limiter does. It is the Limiter's Observer and a prometheus.Collector.
type Metrics struct {
	levels               func() []fairqueuing.Level
	dispatched, rejected *prometheus.CounterVec
	waited, executed     *prometheus.HistogramVec
	gauges               []gauge
}

// gauge is one that is read from the Limiter.
type gauge struct {
	desc  *prometheus.Desc
	level func(*fairqueuing.Level) float64
	flow  func(fairqueuing.Flow) float64 // instead: of each schema
}

// New returns metrics that have counted nothing. The function is a Limiter's method Levels, or calls it.
func New(levels func() []fairqueuing.Level) *Metrics {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: prefix + name, Help: help}, append([]string{"priority_level", "flow_schema"}, labels...))
	}
	histogram := func(name, help, label string) *prometheus.HistogramVec {
		return prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: prefix + name, Help: help, Buckets: []float64{0, 0.005, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30},
		}, []string{"priority_level", "flow_schema", label})
	}
	return &Metrics{
		levels:     levels,
		dispatched: counter("dispatched_requests_total", "[BETA] Number of requests that were served."),
		rejected:   counter("rejected_requests_total", "[BETA] Number of requests that were rejected, by reason.", "reason"),
		waited:     histogram("request_wait_duration_seconds", "[BETA] How long requests waited in a queue, by whether they were served then.", "execute"),
		executed:   histogram("request_execution_seconds", "[ALPHA] How long requests were served; of watches, until the stream began.", "type"),
		gauges:     gauges(),
	}
}

func gauges() []gauge {
	of := func(name, help string, value func(*fairqueuing.Level) float64) gauge {
		return gauge{desc: prometheus.NewDesc(prefix+name, help, []string{"priority_level"}, nil), level: value}
	}
	flow := func(name, help string, value func(fairqueuing.Flow) float64) gauge {
		return gauge{desc: prometheus.NewDesc(prefix+name, help, []string{"priority_level", "flow_schema"}, nil), flow: value}
	}
	serving := func(f fairqueuing.Flow) float64 { return float64(f.Serving) }
	waiting := func(f fairqueuing.Flow) float64 { return float64(f.Waiting) }
	return []gauge{
		of("nominal_limit_seats", "[BETA] A priority level's share of the server's seats.", func(l *fairqueuing.Level) float64 { return float64(l.Nominal) }),
		of("lower_limit_seats", "[ALPHA] What the level does not lend.", func(l *fairqueuing.Level) float64 { return float64(l.Lower) }),
		of("upper_limit_seats", "[ALPHA] What the level has if it borrows all that it may.", func(l *fairqueuing.Level) float64 { return float64(l.Upper) }),
		of("current_limit_seats", "[ALPHA] What the level has now.", func(l *fairqueuing.Level) float64 { return float64(l.Limit) }),
		of("demand_seats_high_watermark", "[ALPHA] The most seats that the level could have used at a moment of the last period.", func(l *fairqueuing.Level) float64 { return float64(l.Most) }),
		of("demand_seats_average", "[ALPHA] The average of the seats that the level could have used in the last period.", func(l *fairqueuing.Level) float64 { return l.Average }),
		of("demand_seats_stdev", "[ALPHA] The standard deviation of the seats that the level could have used in the last period.", func(l *fairqueuing.Level) float64 { return l.Deviation }),
		of("demand_seats_smoothed", "[ALPHA] The seats that the level could use, smoothed over several periods.", func(l *fairqueuing.Level) float64 { return l.Smoothed }),
		flow("current_executing_requests", "[BETA] Number of requests that are being served.", serving),
		flow("current_executing_seats", "[BETA] Number of seats of the requests that are being served.", serving),
		flow("current_inqueue_requests", "[BETA] Number of requests in queues.", waiting),
		flow("current_inqueue_seats", "[ALPHA] Number of seats that the requests in queues will take.", waiting),
	}
}

// Observe implements fairqueuing.Observer.
func (m *Metrics) Observe(o fairqueuing.Observation) {
	level, schema := o.Class.Level.Name, o.Class.Schema.Name
	switch o.Event {
	case fairqueuing.Served:
		m.dispatched.WithLabelValues(level, schema).Inc()
	case fairqueuing.Rejected:
		m.rejected.WithLabelValues(level, schema, string(o.Reason)).Inc()
	case fairqueuing.Ended:
		kind := "regular"
		if o.Verb == "watch" {
			kind = "watch"
		}
		m.executed.WithLabelValues(level, schema, kind).Observe(o.Took.Seconds())
	}
	if o.Queued {
		m.waited.WithLabelValues(level, schema, strconv.FormatBool(o.Event == fairqueuing.Served)).Observe(o.Waited.Seconds())
	}
}

func (m *Metrics) counted() []prometheus.Collector {
	return []prometheus.Collector{m.dispatched, m.rejected, m.waited, m.executed}
}

// Describe implements prometheus.Collector.
func (m *Metrics) Describe(c chan<- *prometheus.Desc) {
	for _, v := range m.counted() {
		v.Describe(c)
	}
	for _, g := range m.gauges {
		c <- g.desc
	}
}

// Collect implements prometheus.Collector.
func (m *Metrics) Collect(c chan<- prometheus.Metric) {
	for _, v := range m.counted() {
		v.Collect(c)
	}
	for _, l := range m.levels() {
		for _, g := range m.gauges {
			if g.level != nil {
				c <- prometheus.MustNewConstMetric(g.desc, prometheus.GaugeValue, g.level(&l), l.Name)
				continue
			}
			for _, f := range l.Flows {
				c <- prometheus.MustNewConstMetric(g.desc, prometheus.GaugeValue, g.flow(f), l.Name, f.Schema)
			}
		}
	}
}
