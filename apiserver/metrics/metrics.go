package metrics

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"

	"github.com/keelson-dev/keelson/apiserver"
	"github.com/keelson-dev/keelson/apiserver/audit"
)

// Collector has metrics of Prometheus.
type Collector = prometheus.Collector

// Options of Metrics; the zero value counts requests and the process.
type Options struct {
	// Version is the one in kubernetes_build_info; apiserver.FillVersion completes it.
	Version version.Info
	// Objects counts the stored objects by resource, when the metrics are read.
	Objects func() map[schema.GroupResource]int
	// Audit returns the counters of an audit.Log, when the metrics are read.
	Audit func() audit.Stats
	// Collectors are further metrics to serve.
	Collectors []Collector
}

// Metrics counts requests.
type Metrics struct {
	registry *prometheus.Registry
	handler  http.Handler
	requests requests
	access   access
	inflight inflight
}

// New returns metrics that have counted nothing. It fails if two collectors have the same metric.
func New(o Options) (*Metrics, error) {
	m := &Metrics{registry: prometheus.NewRegistry(), requests: newRequests(), access: newAccess()}
	all := append([]prometheus.Collector{
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		buildInfo(apiserver.FillVersion(o.Version)),
		&m.inflight,
	}, m.requests.collectors()...)
	all = append(all, m.access.collectors()...)
	if o.Objects != nil {
		all = append(all, objects{o.Objects})
	}
	if o.Audit != nil {
		all = append(all, audited{o.Audit})
	}
	for _, c := range append(all, o.Collectors...) {
		if err := m.registry.Register(c); err != nil {
			return nil, err
		}
	}
	m.handler = promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{})
	return m, nil
}

// ServeHTTP writes the metrics.
func (m *Metrics) ServeHTTP(w http.ResponseWriter, r *http.Request) { m.handler.ServeHTTP(w, r) }

// Observe implements apiserver.Observer.
func (m *Metrics) Observe(moment apiserver.Moment, o *apiserver.Observation) {
	switch moment {
	case apiserver.Began:
		m.requests.began(o)
		m.inflight.began(o)
	case apiserver.Sent:
		m.requests.sent(o)
	case apiserver.TimedOut:
		m.requests.terminated(o, http.StatusGatewayTimeout)
	case apiserver.Ended:
		m.requests.ended(o)
		m.inflight.ended(o)
		m.access.ended(o)
	}
}

// buildInfo is the constant that says which build this is.
func buildInfo(v version.Info) prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "kubernetes_build_info",
		Help: "[ALPHA] What this is a build of, as labels of the constant 1.",
		ConstLabels: prometheus.Labels{
			"major": v.Major, "minor": v.Minor, "git_version": v.GitVersion, "git_commit": v.GitCommit,
			"git_tree_state": v.GitTreeState, "build_date": v.BuildDate, "go_version": v.GoVersion,
			"compiler": v.Compiler, "platform": v.Platform,
		},
	}, func() float64 { return 1 })
}
