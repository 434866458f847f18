package metrics

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/apiserver"
)

// requests counts requests by what they ask for.
type requests struct {
	*series
	aborts, self, late, events *prometheus.CounterVec
	longRunning                *prometheus.GaugeVec
	eventSizes                 *prometheus.HistogramVec
}

func newRequests() requests {
	labels := []string{"verb", "group", "version", "resource", "subresource", "scope", "component"}
	return requests{
		series:      newSeries(),
		longRunning: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "apiserver_longrunning_requests", Help: "[STABLE] Number of watches and other long-running requests that are open."}, labels),
		aborts:      counter("apiserver_request_aborts_total", "[ALPHA] Number of requests whose response was broken off.", labels[:6]...),
		self:        counter("apiserver_selfrequest_total", "[ALPHA] Number of requests that the server made to itself.", "verb", "group", "resource", "subresource"),
		late:        counter("apiserver_request_post_timeout_total", "[ALPHA] Number of handlers that returned after their request had timed out.", "source", "status"),
		events:      counter("apiserver_watch_events_total", "[BETA] Number of events sent to watches.", "group", "version", "resource"),
		eventSizes: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "apiserver_watch_events_sizes", Help: "[BETA] Size of events sent to watches, in bytes.", Buckets: prometheus.ExponentialBuckets(1024, 2, 8),
		}, []string{"group", "version", "resource"}),
	}
}

func (r *requests) collectors() []prometheus.Collector {
	return []prometheus.Collector{r.series, r.aborts, r.self, r.late, r.events, r.eventSizes, r.longRunning}
}

// target is the values of a request's labels.
type target struct{ verb, group, version, resource, subresource, scope, component string }

// targetOf takes them from an observation. Only endpoints that the server has get labels of their own.
func targetOf(o *apiserver.Observation) target {
	t := target{component: "apiserver"}
	q := o.Request
	switch {
	case o.Endpoint == apiserver.ResourceEndpoint:
		t.group, t.version, t.resource, t.subresource = q.Group, q.Version, q.Resource, q.Subresource
		switch {
		case q.Name != "" && !q.Selected, q.Verb == "create":
			t.scope = "resource"
		case q.Namespace != "":
			t.scope = "namespace"
		default:
			t.scope = "cluster"
		}
	case !q.IsResource:
		t.subresource = o.Endpoint
		if t.subresource != "" {
			t.component = "" // as upstream's probes
		}
	}
	t.verb = verbOf(o, t.scope)
	return t
}

func verbOf(o *apiserver.Observation, scope string) string {
	verb := strings.ToUpper(o.Method)
	if o.Endpoint == apiserver.ResourceEndpoint {
		switch o.Request.Subresource {
		case "log", "exec", "portforward", "attach", "proxy":
			return "CONNECT"
		}
		if o.Request.Verb == "watch" {
			return "WATCH"
		}
	}
	switch verb {
	case http.MethodGet, http.MethodHead:
		if scope == "namespace" || scope == "cluster" {
			return "LIST"
		}
		return "GET"
	case http.MethodPatch:
		if o.ContentType == string(types.ApplyPatchType) {
			return "APPLY"
		}
		return verb
	case http.MethodPost, http.MethodPut, http.MethodDelete:
		return verb
	}
	return "other"
}

func (t *target) values() []string {
	return []string{t.verb, t.group, t.version, t.resource, t.subresource, t.scope, t.component}
}

// dryRunOf is the label "dry_run".
func dryRunOf(u *url.URL) string {
	if !strings.Contains(u.RawQuery, "dryRun") {
		return ""
	}
	values := u.Query()["dryRun"]
	switch {
	case len(values) == 0:
		return ""
	case slices.ContainsFunc(values, func(v string) bool { return v != "All" }):
		return "invalid"
	}
	return "All"
}

func (r *requests) began(o *apiserver.Observation) {
	if o.LongRunning && o.Endpoint != "" {
		t := targetOf(o)
		r.longRunning.WithLabelValues(t.values()...).Inc()
	}
}

func (r *requests) sent(o *apiserver.Observation) {
	if o.Endpoint != apiserver.ResourceEndpoint || o.Request.Verb != "watch" {
		return
	}
	q := o.Request
	r.events.WithLabelValues(q.Group, q.Version, q.Resource).Inc()
	r.eventSizes.WithLabelValues(q.Group, q.Version, q.Resource).Observe(float64(o.Chunk))
}

func (r *requests) terminated(o *apiserver.Observation, code int) {
	r.update(keyOf(o), func(c *counts) { c.terminations = count(c.terminations, code) })
}

func keyOf(o *apiserver.Observation) key { return key{targetOf(o), dryRunOf(o.URL)} }

func (r *requests) ended(o *apiserver.Observation) {
	k := keyOf(o)
	switch {
	case o.Rejected:
		r.update(k, func(c *counts) {
			c.codes = count(c.codes, o.Code)
			c.terminations = count(c.terminations, o.Code)
		})
		return
	case !o.Began:
		return // refused before it began: counted as authentication
	}
	if o.Late {
		r.late.WithLabelValues("timeout-handler", outcome(o)).Inc()
	}
	if o.Aborted {
		r.aborts.WithLabelValues(k.values()[:6]...).Inc()
	}
	if o.Endpoint == "" {
		return
	}
	if o.LongRunning {
		r.longRunning.WithLabelValues(k.values()...).Dec()
	}
	if o.Access.Authorization != "allowed" {
		return // likewise
	}
	r.update(k, func(c *counts) { c.served(&k, o, &r.bounds) })
	if o.Access.User != nil && o.Access.User.Name == "system:apiserver" {
		r.self.WithLabelValues(k.verb, k.group, k.resource, k.subresource).Inc()
	}
}

// served counts a request that an endpoint has served.
func (c *counts) served(k *key, o *apiserver.Observation, b *bounds) {
	c.codes = count(c.codes, o.Code)
	c.duration.observe(b.duration, o.Took.Seconds())
	if k.verb == "GET" || k.verb == "LIST" {
		if c.size == nil {
			c.size = &histogram{}
		}
		c.size.observe(b.size, float64(o.Size))
	}
	if k.resource != "" && bodyVerb(&k.target) != "" {
		if c.body == nil {
			c.body = &histogram{}
		}
		c.body.observe(b.body, float64(o.Body))
	}
}

func outcome(o *apiserver.Observation) string {
	if o.Panicked {
		return "panic"
	}
	return "ok"
}
