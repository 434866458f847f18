package metrics_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"

	"github.com/keelson-dev/keelson/apiserver"
	"github.com/keelson-dev/keelson/apiserver/audit"
	"github.com/keelson-dev/keelson/apiserver/metrics"
	"github.com/keelson-dev/keelson/authn"
	"github.com/keelson-dev/keelson/authn/token"
	"github.com/keelson-dev/keelson/authz"
	"github.com/keelson-dev/keelson/flowcontrol"
	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/registry/core"
	"github.com/keelson-dev/keelson/storage/memory"
)

// scrape reads the metrics in Prometheus' text format.
func scrape(t *testing.T, m *metrics.Metrics) map[string]*dto.MetricFamily {
	t.Helper()
	w := httptest.NewRecorder()
	m.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	if w.Code != http.StatusOK || !strings.HasPrefix(w.Header().Get("Content-Type"), "text/plain; version=0.0.4") {
		t.Fatalf("%d %v %s", w.Code, w.Header(), w.Body)
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(w.Body)
	if err != nil {
		t.Fatal(err)
	}
	return families
}

// values are the series of a family: counters and gauges by value, histograms by how much they saw.
func values(f *dto.MetricFamily) map[string]float64 {
	out := map[string]float64{}
	for _, m := range f.GetMetric() {
		var labels []string
		for _, l := range m.GetLabel() {
			if l.GetValue() != "" {
				labels = append(labels, l.GetName()+"="+l.GetValue())
			}
		}
		out[strings.Join(labels, " ")] = m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
	}
	return out
}

// fixture is a server of the core kinds whose every corner is measured.
type fixture struct {
	*metrics.Metrics
	server *apiserver.Server
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	reg, err := registry.New(memory.New(memory.Options{}), core.Kinds(core.Options{}), registry.Options{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- reg.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	if err := reg.WaitSynced(ctx); err != nil {
		t.Fatal(err)
	}
	full := audit.SinkFunc(func(e *auditv1.Event) error {
		if e.RequestURI == "/abort" {
			return errors.New("disk full")
		}
		return nil
	})
	log := audit.New(audit.Everything(auditv1.LevelMetadata), full, audit.Options{})
	m, err := metrics.New(metrics.Options{
		Version: version.Info{Major: "1", Minor: "37", GitVersion: "v1.37.1"}, Audit: log.Stats,
		Objects: func() map[schema.GroupResource]int {
			counts := map[schema.GroupResource]int{}
			for _, r := range reg.Resources() {
				if r.Stored() {
					counts[r.GroupResource()] = r.Len()
				}
			}
			return counts
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return &fixture{m, apiserver.New(reg, apiserver.Options{
		Observer: m, Audit: log, FlowControl: &oneWriter{},
		Authenticator: token.New(token.Static(map[string]*authn.Identity{
			"ann": {Name: "ann@example.com"}, "bob": {Name: "bob"}, "self": {Name: "system:apiserver"},
		})),
		Authorizer: authz.Func(func(_ context.Context, a authz.Attributes) (authz.Decision, error) {
			switch {
			case a.User.Name != "bob" || a.Verb == "impersonate":
				return authz.Decision{Verdict: authz.Allow}, nil
			case a.Name == "denied":
				return authz.Decision{Verdict: authz.Deny}, nil
			case a.Name == "error":
				return authz.Decision{}, errors.New("no answer")
			}
			return authz.Decision{}, nil
		}),
		Paths: map[string]http.Handler{
			"/healthz": http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") }),
			"/slow":    http.HandlerFunc(func(http.ResponseWriter, *http.Request) { time.Sleep(2 * time.Minute) }),
			"/angry": http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
				time.Sleep(2 * time.Minute)
				panic("so late")
			}),
			"/abort": http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }),
		},
	})}
}

// ask sends a request; the headers follow as "Name: value".
func (f *fixture) ask(who, method, path, body string, header ...string) int {
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	r.Header.Set("Authorization", "Bearer "+who)
	for _, h := range header {
		name, value, _ := strings.Cut(h, ": ")
		r.Header.Set(name, value)
	}
	w := httptest.NewRecorder()
	defer func() { _ = recover() }() // what aborted
	f.server.ServeHTTP(w, r)
	return w.Code
}

// traffic is one of everything.
func (f *fixture) traffic(t *testing.T) {
	t.Helper()
	const configmaps = "/api/v1/namespaces/x/configmaps"
	for _, q := range []struct {
		who, method, path, body string
		header                  []string
	}{
		{who: "ann", method: "POST", path: configmaps, body: `{"metadata":{"name":"a"},"data":{"k":"` + strings.Repeat("v", 60_000) + `"}}`},
		{who: "ann", method: "POST", path: configmaps + "?dryRun=All", body: `{"metadata":{"name":"b"}}`},
		{who: "ann", method: "POST", path: configmaps + "?dryRun=Some", body: `{"metadata":{"name":"b"}}`},
		{who: "ann", method: "GET", path: configmaps + "/a"},
		{who: "ann", method: "GET", path: configmaps + "/none"},
		{who: "self", method: "GET", path: configmaps},
		{who: "ann", method: "GET", path: configmaps + "?fieldSelector=metadata.name%3Da"},
		{who: "ann", method: "GET", path: "/api/v1/configmaps"},
		{who: "ann", method: "PATCH", path: configmaps + "/a", body: `{"data":{"l":"m"}}`, header: []string{"Content-Type: application/merge-patch+json"}},
		{who: "ann", method: "DELETE", path: configmaps + "/a"},
		{who: "ann", method: "DELETE", path: configmaps},
		{who: "ann", method: "GET", path: "/api/v1/namespaces/x/pods/p/status"},
		{who: "ann", method: "GET", path: "/healthz"},
		{who: "ann", method: "TRACE", path: "/healthz"},
		// What is not there must not make labels.
		{who: "ann", method: "GET", path: "/api/v1/inventions/i"},
		{who: "ann", method: "GET", path: configmaps + "/a/invention"},
		{who: "ann", method: "GET", path: "/invention"},
		{who: "wrong", method: "GET", path: configmaps},
		{who: "bob", method: "GET", path: configmaps},
		{who: "bob", method: "GET", path: configmaps + "/denied"},
		{who: "bob", method: "GET", path: configmaps + "/error"},
		{who: "ann", method: "GET", path: configmaps, header: []string{"Impersonate-User: bob"}},
		{who: "bob", method: "GET", path: configmaps, header: []string{"Impersonate-User: ann"}},
		{who: "bob", method: "GET", path: configmaps, header: []string{"Impersonate-User: ann", "Impersonate-Uid: 1", "Impersonate-Extra-A: b"}},
		{who: "ann", method: "GET", path: "/slow"},
		{who: "ann", method: "GET", path: "/angry?timeout=1s"},
		{who: "ann", method: "GET", path: "/abort"},
	} {
		f.ask(q.who, q.method, q.path, q.body, q.header...)
	}
	go f.ask("ann", "POST", "/slow", "")
	synctest.Wait()
	if code := f.ask("ann", "POST", configmaps, "{}"); code != http.StatusTooManyRequests {
		t.Errorf("with the only seat taken: %d", code)
	}
	time.Sleep(5 * time.Minute)
	synctest.Wait()
}

// TestNames: what is served has the name, the type and the labels that upstream gives it.
func TestNames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		f.traffic(t)
		f.watch(t)
		data, err := os.ReadFile("testdata/upstream.tsv")
		if err != nil {
			t.Fatal(err)
		}
		want := map[string]string{}
		for _, line := range strings.Split(strings.TrimSuffix(string(data), "\n"), "\n")[1:] {
			name, rest, _ := strings.Cut(line, "\t")
			want[name] = rest
		}
		got := map[string]string{}
		for name, family := range scrape(t, f.Metrics) {
			if strings.HasPrefix(name, "go_") || strings.HasPrefix(name, "process_") {
				continue
			}
			labels := map[string]bool{}
			for _, m := range family.GetMetric() {
				for _, l := range m.GetLabel() {
					labels[l.GetName()] = true
				}
			}
			got[name] = strings.ToLower(family.GetType().String()) + "\t" + strings.Join(slices.Sorted(maps.Keys(labels)), ",")
			if !strings.HasPrefix(family.GetHelp(), "[") {
				t.Errorf("%s does not say how stable it is: %s", name, family.GetHelp())
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-upstream +keelson) %s", diff)
		}
	})
}

// watch has one watch see two events, and looks at the metrics while it is open.
func (f *fixture) watch(t *testing.T) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		f.ask("ann", "GET", "/api/v1/namespaces/x/configmaps?watch=1&timeoutSeconds=60", "")
	}()
	synctest.Wait()
	f.ask("ann", "POST", "/api/v1/namespaces/x/configmaps", `{"metadata":{"name":"c"},"data":{"k":"`+strings.Repeat("v", 2000)+`"}}`)
	f.ask("ann", "DELETE", "/api/v1/namespaces/x/configmaps/c", "")
	synctest.Wait()
	series := "component=apiserver resource=configmaps scope=namespace verb=WATCH version=v1"
	if got := values(scrape(t, f.Metrics)["apiserver_longrunning_requests"])[series]; got != 1 {
		t.Errorf("open watches: %v", got)
	}
	<-done
	if got := values(scrape(t, f.Metrics)["apiserver_longrunning_requests"])[series]; got != 0 {
		t.Errorf("open watches in the end: %v", got)
	}
	f.ask("ann", "GET", "/api/v1/namespaces/x/configmaps?watch=1&labelSelector=a%20b", "") // sees none
}

func TestRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		f.traffic(t)
		f.watch(t)
		families := scrape(t, f.Metrics)
		for name, want := range expected() {
			if diff := cmp.Diff(want, values(families[name])); diff != "" {
				t.Errorf("%s (-want +got) %s", name, diff)
			}
		}
		for build, is := range values(families["kubernetes_build_info"]) {
			if is != 1 || !strings.Contains(build, "git_version=v1.37.1") || !strings.Contains(build, "go_version="+runtime.Version()) {
				t.Errorf("build %s: %v", build, is)
			}
		}
		// Sizes and times are what they should be.
		body := families["apiserver_request_body_size_bytes"].GetMetric()
		if !slices.ContainsFunc(body, func(m *dto.Metric) bool { return m.GetHistogram().GetSampleSum() > 60_000 }) {
			t.Error("the large body was not seen")
		}
		for _, m := range families["apiserver_request_duration_seconds"].GetMetric() {
			if l := m.GetLabel(); slices.ContainsFunc(l, func(l *dto.LabelPair) bool { return l.GetValue() == "WATCH" }) && m.GetHistogram().GetSampleSum() != 60 {
				t.Errorf("the watch took %v s", m.GetHistogram().GetSampleSum())
			}
		}
		sizes := families["apiserver_watch_events_sizes"].GetMetric()[0].GetHistogram()
		if sizes.GetBucket()[1].GetUpperBound() != 2048 || sizes.GetSampleSum() < 4000 {
			t.Errorf("sizes of events: %v", sizes)
		}
	})
}

// expected are the series after traffic and watch; labels that are empty are left out.
func expected() map[string]map[string]float64 {
	one := func(verb, scope, code string) string {
		return fmt.Sprintf("code=%s component=apiserver resource=configmaps scope=%s verb=%s version=v1", code, scope, verb)
	}
	return map[string]map[string]float64{
		"apiserver_request_total": {
			one("POST", "resource", "201"): 2, one("POST", "resource", "429"): 1,
			"code=201 component=apiserver dry_run=All resource=configmaps scope=resource verb=POST version=v1":     1,
			"code=422 component=apiserver dry_run=invalid resource=configmaps scope=resource verb=POST version=v1": 1,
			one("GET", "resource", "200"): 1, one("GET", "resource", "404"): 1,
			one("LIST", "namespace", "200"): 4, one("LIST", "cluster", "200"): 1,
			one("PATCH", "resource", "200"): 1, one("DELETE", "resource", "200"): 2, one("DELETE", "namespace", "200"): 1,
			one("WATCH", "namespace", "200"): 1, one("WATCH", "namespace", "400"): 1,
			"code=404 component=apiserver resource=pods scope=resource subresource=status verb=GET version=v1": 1,
			"code=200 subresource=/healthz verb=GET":                                                           1, "code=200 subresource=/healthz verb=other": 1,
			"code=504 subresource=/slow verb=GET": 1, "code=504 subresource=/slow verb=POST": 1, "code=504 subresource=/angry verb=GET": 1,
			"code=0 subresource=/abort verb=GET": 1,
		},
		"apiserver_request_terminations_total": {
			"code=504 subresource=/slow verb=GET": 1, "code=504 subresource=/slow verb=POST": 1, "code=504 subresource=/angry verb=GET": 1,
			one("POST", "resource", "429"): 1,
		},
		"apiserver_request_post_timeout_total": {"source=timeout-handler status=ok": 2, "source=timeout-handler status=panic": 1},
		"apiserver_request_aborts_total":       {"subresource=/abort verb=GET": 1},
		"apiserver_selfrequest_total":          {"resource=configmaps verb=LIST": 1},
		"apiserver_watch_events_total":         {"resource=configmaps version=v1": 2},
		"authentication_attempts":              {"result=success": 32, "result=error": 1},
		"authenticated_user_requests":          {"username=email_id": 26, "username=other": 6},
		"authorization_attempts_total":         {"result=allowed": 27, "result=denied": 1, "result=error": 1, "result=no-opinion": 2},
		"apiserver_impersonation_attempts_total": {
			"decision=allowed mode=user-info": 1, "decision=allowed mode=legacy": 2,
		},
		"apiserver_audit_level_total": {"level=Metadata": 33},
		"apiserver_audit_error_total": {"plugin=log": 2},
		"apiserver_storage_objects":   objects("resource="),
		"apiserver_resource_objects":  objects("resource="),
	}
}

// objects are what is stored in the end: nothing.
func objects(prefix string) map[string]float64 {
	out := map[string]float64{}
	for _, k := range core.Kinds(core.Options{}) {
		if k.Stored() {
			out[prefix+k.Plural] = 0
		}
	}
	return out
}

// TestInflight: the most there were since the last time, and then how many there are.
func TestInflight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		is := func(readOnly, mutating float64) {
			t.Helper()
			want := map[string]float64{"request_kind=readOnly": readOnly, "request_kind=mutating": mutating}
			if diff := cmp.Diff(want, values(scrape(t, f.Metrics)["apiserver_current_inflight_requests"])); diff != "" {
				t.Error(diff)
			}
		}
		is(0, 0)
		for range 3 {
			go f.ask("ann", "GET", "/slow", "")
		}
		go f.ask("ann", "POST", "/slow", "")
		synctest.Wait()
		f.ask("ann", "GET", "/healthz", "")
		is(4, 1)
		is(3, 1)
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		is(3, 1)
		is(0, 0)
	})
}

// TestLeftOut: what the audit log does not tell of strangers is counted.
func TestLeftOut(t *testing.T) {
	for _, n := range []int64{0, 7} {
		m, err := metrics.New(metrics.Options{Audit: func() audit.Stats { return audit.Stats{LeftOut: n} }})
		if err != nil {
			t.Fatal(err)
		}
		want := map[string]float64{}
		if n > 0 {
			want[""] = float64(n)
		}
		if diff := cmp.Diff(want, values(scrape(t, m)["apiserver_audit_left_out_total"])); diff != "" {
			t.Error(diff)
		}
	}
}

// TestAuditPlugins: what audit plugins count for themselves is added to what the log counts.
func TestAuditPlugins(t *testing.T) {
	m, err := metrics.New(metrics.Options{Audit: func() audit.Stats {
		return audit.Stats{Failures: 2, Plugins: map[string]int64{"webhook": 3, "buffered": 4, "truncate": 0, "log": 5}}
	}})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]float64{"plugin=webhook": 3, "plugin=buffered": 4, "plugin=log": 7}
	if diff := cmp.Diff(want, values(scrape(t, m)["apiserver_audit_error_total"])); diff != "" {
		t.Error(diff)
	}
}

func TestClash(t *testing.T) {
	mine := prometheus.NewGauge(prometheus.GaugeOpts{Name: "mine", Help: "[ALPHA] Mine."})
	if _, err := metrics.New(metrics.Options{Collectors: []prometheus.Collector{mine}}); err != nil {
		t.Error(err)
	}
	if _, err := metrics.New(metrics.Options{Collectors: []prometheus.Collector{mine, mine}}); err == nil {
		t.Error("two of a name")
	}
}

// oneWriter lets one write be served at a time.
type oneWriter struct{ busy atomic.Bool }

func (l *oneWriter) Wait(_ context.Context, a authz.Attributes) (flowcontrol.Ticket, error) {
	switch {
	case a.Verb == "get" || a.Verb == "list" || a.Verb == "watch":
		return flowcontrol.Ticket{}, nil
	case l.busy.CompareAndSwap(false, true):
		return flowcontrol.Ticket{Release: func() { l.busy.Store(false) }}, nil
	}
	return flowcontrol.Ticket{}, &flowcontrol.Rejection{Reason: flowcontrol.ConcurrencyLimit}
}
