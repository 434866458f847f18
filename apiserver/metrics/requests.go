package metrics

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/apiserver"
)

// requests counts requests by what they ask for.
type requests struct {
	total, terminations, aborts, self, late, events *prometheus.CounterVec
	longRunning                                     *prometheus.GaugeVec
	duration, sli, sizes, bodies, eventSizes        *prometheus.HistogramVec
}

func newRequests() requests {
	histogram := func(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
		return prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, labels)
	}
	// Upstream's buckets, in seconds.
	fine := []float64{0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2, 3, 4, 5, 6, 8, 10, 15, 20, 30, 45, 60}
	coarse := fine[2:]
	target := []string{"verb", "group", "version", "resource", "subresource", "scope", "component"}
	dry := []string{"verb", "dry_run", "group", "version", "resource", "subresource", "scope", "component"}
	return requests{
		total:        counter("apiserver_request_total", "[STABLE] Number of requests, by what they asked for and HTTP code.", append(slices.Clone(dry), "code")...),
		duration:     histogram("apiserver_request_duration_seconds", "[STABLE] Time from a request to the end of its response, by what it asked for.", fine, dry...),
		sli:          histogram("apiserver_request_sli_duration_seconds", "[ALPHA] Time from a request to the end of its response, without dry runs and without what webhooks took.", coarse, target...),
		sizes:        histogram("apiserver_response_sizes", "[STABLE] Size of responses to gets and lists, in bytes.", prometheus.ExponentialBuckets(1000, 10, 7), target...),
		longRunning:  prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "apiserver_longrunning_requests", Help: "[STABLE] Number of watches and other long-running requests that are open."}, target),
		terminations: counter("apiserver_request_terminations_total", "[ALPHA] Number of requests that were ended in self-defense: timed out, or too many.", append(slices.Clone(target), "code")...),
		aborts:       counter("apiserver_request_aborts_total", "[ALPHA] Number of requests whose response was broken off.", target[:6]...),
		self:         counter("apiserver_selfrequest_total", "[ALPHA] Number of requests that the server made to itself.", "verb", "group", "resource", "subresource"),
		late:         counter("apiserver_request_post_timeout_total", "[ALPHA] Number of handlers that returned after their request had timed out.", "source", "status"),
		bodies:       histogram("apiserver_request_body_size_bytes", "[ALPHA] Size of request bodies, in bytes.", prometheus.LinearBuckets(50000, 100000, 31), "group", "resource", "verb"),
		events:       counter("apiserver_watch_events_total", "[BETA] Number of events sent to watches.", "group", "version", "resource"),
		eventSizes:   histogram("apiserver_watch_events_sizes", "[BETA] Size of events sent to watches, in bytes.", prometheus.ExponentialBuckets(1024, 2, 8), "group", "version", "resource"),
	}
}

func (r *requests) collectors() []prometheus.Collector {
	return []prometheus.Collector{
		r.total, r.duration, r.sli, r.sizes, r.longRunning, r.terminations, r.aborts, r.self, r.late, r.bodies, r.events, r.eventSizes,
	}
}

// target is what labels say of a request.
type target struct{ verb, group, version, resource, subresource, scope, component string }

// targetOf reads it from an observation. Only what the server knows has labels of its own.
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
	t := targetOf(o)
	r.terminations.WithLabelValues(append(t.values(), strconv.Itoa(code))...).Inc()
}

func (r *requests) ended(o *apiserver.Observation) {
	t := targetOf(o)
	switch {
	case o.Rejected:
		r.count(&t, o)
		r.terminated(o, http.StatusTooManyRequests)
		return
	case !o.Began:
		return // refused on the way in: that is counted as authentication
	}
	if o.Late {
		r.late.WithLabelValues("timeout-handler", outcome(o)).Inc()
	}
	if o.Aborted {
		r.aborts.WithLabelValues(t.values()[:6]...).Inc()
	}
	if o.Endpoint == "" {
		return
	}
	if o.LongRunning {
		r.longRunning.WithLabelValues(t.values()...).Dec()
	}
	if o.Access.Authorization != "allowed" {
		return // likewise
	}
	r.count(&t, o)
	dry := dryRunOf(o.URL)
	seconds := o.Took.Seconds()
	r.duration.WithLabelValues(t.verb, dry, t.group, t.version, t.resource, t.subresource, t.scope, t.component).Observe(seconds)
	if dry == "" {
		r.sli.WithLabelValues(t.values()...).Observe(seconds)
	}
	if t.verb == "GET" || t.verb == "LIST" {
		r.sizes.WithLabelValues(t.values()...).Observe(float64(o.Size))
	}
	if t.resource != "" {
		r.body(o)
	}
	if o.Access.User != nil && o.Access.User.Name == "system:apiserver" {
		r.self.WithLabelValues(t.verb, t.group, t.resource, t.subresource).Inc()
	}
}

func outcome(o *apiserver.Observation) string {
	if o.Panicked {
		return "panic"
	}
	return "ok"
}

func (r *requests) count(t *target, o *apiserver.Observation) {
	r.total.WithLabelValues(t.verb, dryRunOf(o.URL), t.group, t.version, t.resource, t.subresource, t.scope, t.component, strconv.Itoa(o.Code)).Inc()
}

// body counts the size of the request's body, of the verbs that have one.
func (r *requests) body(o *apiserver.Observation) {
	verb := o.Request.Verb
	switch verb {
	case "create", "update", "patch", "delete":
	case "deletecollection":
		verb = "delete_collection"
	default:
		return
	}
	r.bodies.WithLabelValues(o.Request.Group, o.Request.Resource, verb).Observe(float64(o.Body))
}
