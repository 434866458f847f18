package authenticationconfig

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/keelson-dev/keelson/cluster/internal/reload"
)

// figures are upstream's metrics of issuers.
type figures struct {
	server  string
	latency *prometheus.HistogramVec
	last    *prometheus.GaugeVec
	info    *prometheus.Desc

	mu   sync.Mutex
	keys map[string]string // by issuer; hashes of what it last told
}

func newFigures(server string) *figures {
	const name = "apiserver_authentication_jwt_authenticator_"
	return &figures{
		server: reload.Hash(server),
		latency: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: name + "latency_seconds", Help: "[ALPHA] How long it took to verify tokens that were not cached.",
			Buckets: []float64{.001, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10},
		}, []string{"result", "jwt_issuer_hash"}),
		last: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: name + "jwks_fetch_last_timestamp_seconds", Help: "[ALPHA] When the keys of an issuer were last fetched, by what came of it.",
		}, []string{"result", "jwt_issuer_hash", "apiserver_id_hash"}),
		info: prometheus.NewDesc(name+"jwks_fetch_last_key_set_info", "[ALPHA] The hash of the keys that an issuer last told.",
			[]string{"jwt_issuer_hash", "apiserver_id_hash", "hash"}, nil),
		keys: map[string]string{},
	}
}

func (f *figures) collectors() []prometheus.Collector {
	return []prometheus.Collector{f.latency, f.last, f}
}

func result(err error) string {
	if err != nil {
		return "failure"
	}
	return "success"
}

func (f *figures) verified(issuer string) func(time.Duration, error) {
	issuer = reload.Hash(issuer)
	return func(took time.Duration, err error) {
		f.latency.WithLabelValues(result(err), issuer).Observe(took.Seconds())
	}
}

func (f *figures) fetched(issuer string) func([]byte, error) {
	issuer = reload.Hash(issuer)
	return func(answer []byte, err error) {
		f.last.WithLabelValues(result(err), issuer, f.server).SetToCurrentTime()
		if err != nil {
			return
		}
		f.mu.Lock()
		defer f.mu.Unlock()
		f.keys[issuer] = reload.Hash(string(answer))
	}
}

// forget removes what is told of an issuer that is no longer asked for keys.
func (f *figures) forget(issuer string) {
	issuer = reload.Hash(issuer)
	f.last.DeletePartialMatch(prometheus.Labels{"jwt_issuer_hash": issuer})
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.keys, issuer)
}

// Describe implements prometheus.Collector.
func (f *figures) Describe(c chan<- *prometheus.Desc) { c <- f.info }

// Collect implements prometheus.Collector.
func (f *figures) Collect(c chan<- prometheus.Metric) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for issuer, hash := range f.keys {
		c <- prometheus.MustNewConstMetric(f.info, prometheus.GaugeValue, 1, issuer, f.server, hash)
	}
}
