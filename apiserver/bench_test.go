package apiserver_test

import (
	"io"
	"net/http"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"

	"github.com/keelson-dev/keelson/apiserver"
	"github.com/keelson-dev/keelson/apiserver/audit"
	"github.com/keelson-dev/keelson/apiserver/metrics"
	"github.com/keelson-dev/keelson/authn"
	"github.com/keelson-dev/keelson/authz/alwaysallow"
	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/registry/core"
	"github.com/keelson-dev/keelson/storage/memory"
)

// discard is a response that nobody reads, of a handler that is not called by a Transport.
type discard struct{ header http.Header }

func (d *discard) Header() http.Header         { return d.header }
func (d *discard) Write(b []byte) (int, error) { return len(b), nil }
func (d *discard) WriteHeader(int)             {}

func benchServer(b *testing.B, o apiserver.Options) *apiserver.Server {
	b.Helper()
	store := memory.New(memory.Options{})
	r, err := registry.New(store, core.Kinds(core.Options{}), registry.Options{})
	if err != nil {
		b.Fatal(err)
	}
	if o.Authorizer == nil {
		o.Authorizer = alwaysallow.New()
	}
	b.Cleanup(func() {
		if err := store.Close(); err != nil {
			b.Error(err)
		}
	})
	return apiserver.New(r, o)
}

// BenchmarkChain measures what a request costs besides its endpoint: /version has nearly none.
func BenchmarkChain(b *testing.B) {
	known := authn.Func(func(*http.Request) (*authn.Identity, error) { return &authn.Identity{Name: "ann"}, nil })
	plain := apiserver.Options{Authenticator: known}
	s := benchServer(b, plain)
	b.Run("in process", func(b *testing.B) { inProcess(b, s, "/version") })
	b.Run("from outside", func(b *testing.B) {
		b.ReportAllocs()
		r := (&http.Request{Method: http.MethodGet, URL: &url.URL{Path: "/version"}, Header: http.Header{}}).WithContext(b.Context())
		for b.Loop() {
			s.ServeHTTP(&discard{header: http.Header{}}, r)
		}
	})
	audited := plain
	file, err := audit.OpenFile(filepath.Join(b.TempDir(), "audit.log"), audit.FileOptions{Keep: 1})
	if err != nil {
		b.Fatal(err)
	}
	defer file.Close()
	audited.Audit = audit.New(audit.Everything(auditv1.LevelMetadata), file, audit.Options{})
	b.Run("audited", func(b *testing.B) { inProcess(b, benchServer(b, audited), "/version") })
	observed := plain
	if observed.Observer, err = metrics.New(metrics.Options{}); err != nil {
		b.Fatal(err)
	}
	b.Run("observed", func(b *testing.B) { inProcess(b, benchServer(b, observed), "/api/v1/namespaces/default/nothings") })
	b.Run("observed, of an endpoint", func(b *testing.B) { inProcess(b, benchServer(b, observed), "/api/v1/namespaces/default/pods/p/status") })
	b.Run("the same, not observed", func(b *testing.B) { inProcess(b, s, "/api/v1/namespaces/default/pods/p/status") })
}

func inProcess(b *testing.B, s *apiserver.Server, path string) {
	b.Helper()
	transport := apiserver.NewTransport(s, nil)
	defer transport.Close()
	u, err := url.Parse("http://keelson" + path)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		r := &http.Request{Method: http.MethodPost, URL: u, Header: http.Header{}} // which no resource here takes
		if path == "/version" {
			r.Method = http.MethodGet
		}
		if _, err := transport.RoundTrip(r.WithContext(b.Context())); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkPods measures whole requests of a component.
func BenchmarkPods(b *testing.B) {
	config := serve(b)
	const body = `{"metadata":{"name":"NAME"},"spec":{"containers":[{"name":"c","image":"nginx"}]}}`
	request(b, config.Transport, "POST", "/api/v1/namespaces/default/pods", strings.Replace(body, "NAME", "p0", 1), http.StatusCreated)
	n := 1
	b.Run("create", func(b *testing.B) {
		b.ReportAllocs()
		for ; b.Loop(); n++ {
			request(b, config.Transport, "POST", "/api/v1/namespaces/default/pods", strings.Replace(body, "NAME", "p"+strconv.Itoa(n), 1), http.StatusCreated)
		}
	})
	b.Run("get", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			request(b, config.Transport, "GET", "/api/v1/namespaces/default/pods/p0", "", http.StatusOK)
		}
	})
}

func request(b *testing.B, transport http.RoundTripper, method, path, body string, code int) {
	b.Helper()
	u, err := url.Parse("http://keelson" + path)
	if err != nil {
		b.Fatal(err)
	}
	r := (&http.Request{Method: method, URL: u, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(body))}).WithContext(b.Context())
	resp, err := transport.RoundTrip(r)
	if err != nil || resp.StatusCode != code {
		b.Fatal(resp, err)
	}
}
