package apiserver_test

import (
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"github.com/keelson-dev/keelson/apiserver"
	"github.com/keelson-dev/keelson/authn"
	"github.com/keelson-dev/keelson/authz"
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
	s := benchServer(b, apiserver.Options{Authenticator: known, Authorizer: authz.Authorizer(alwaysallow.New())})
	transport := apiserver.NewTransport(s, nil)
	defer transport.Close()
	u, err := url.Parse("http://keelson/version")
	if err != nil {
		b.Fatal(err)
	}
	b.Run("in process", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			resp, err := transport.RoundTrip((&http.Request{Method: http.MethodGet, URL: u, Header: http.Header{}}).WithContext(b.Context()))
			if err != nil || resp.StatusCode != http.StatusOK {
				b.Fatal(resp, err)
			}
		}
	})
	b.Run("from outside", func(b *testing.B) {
		b.ReportAllocs()
		r := (&http.Request{Method: http.MethodGet, URL: u, Header: http.Header{}}).WithContext(b.Context())
		for b.Loop() {
			s.ServeHTTP(&discard{header: http.Header{}}, r)
		}
	})
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
