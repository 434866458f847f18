package tracing_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/keelson-dev/keelson/apiserver"
	"github.com/keelson-dev/keelson/apiserver/tracing"
	"github.com/keelson-dev/keelson/authn"
	"github.com/keelson-dev/keelson/authz/alwaysallow"
	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/registry/core"
	"github.com/keelson-dev/keelson/registry/rbac"
	"github.com/keelson-dev/keelson/storage/memory"
	storetracing "github.com/keelson-dev/keelson/storage/tracing"
)

const (
	theirTrace = "0af7651916cd43dd8448eb211c80319c"
	theirs     = "00-" + theirTrace + "-b7ad6b7169203331-01" // sampled
	unsampled  = "00-" + theirTrace + "-b7ad6b7169203331-00"
)

// world is a server that is traced.
type world struct {
	*testing.T
	transport http.RoundTripper
	spans     *tracetest.SpanRecorder
}

// start runs a server whose users say in a header what groups they are in. The sampler is for those traces that nobody else
// has begun.
func start(t *testing.T, s sdk.Sampler) *world {
	t.Helper()
	store := memory.New(memory.Options{})
	reg, err := registry.New(storetracing.New(store), append(core.Kinds(core.Options{}), rbac.Kinds(nil)...), registry.Options{})
	if err != nil {
		t.Fatal(err)
	}
	w := &world{T: t, spans: tracetest.NewSpanRecorder()}
	provider := sdk.NewTracerProvider(sdk.WithSampler(sdk.ParentBased(s)), sdk.WithSpanProcessor(w.spans))
	transport := apiserver.NewTransport(apiserver.New(reg, apiserver.Options{
		Authorizer: alwaysallow.New(), Tracer: tracing.New(provider),
		Authenticator: authn.Func(func(r *http.Request) (*authn.Identity, error) {
			return &authn.Identity{Name: "alice", Groups: r.Header.Values("Group")}, nil
		}),
	}), nil)
	w.transport = transport
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- reg.Run(ctx) }()
	t.Cleanup(func() {
		transport.Close()
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := reg.WaitSynced(ctx); err != nil {
		t.Fatal(err)
	}
	return w
}

// do sends a request and returns the spans that it led to, in the order in which they ended.
func (w *world) do(method, path, body string, header http.Header) []sdk.ReadOnlySpan {
	w.Helper()
	before := len(w.spans.Ended())
	r, err := http.NewRequestWithContext(w.Context(), method, "http://cluster.example"+path, strings.NewReader(body))
	if err != nil {
		w.Fatal(err)
	}
	r.Header = header.Clone()
	if r.Header == nil {
		r.Header = http.Header{}
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("User-Agent", "test/1")
	resp, err := w.transport.RoundTrip(r)
	if err != nil {
		w.Fatal(err)
	}
	if err := resp.Body.Close(); err != nil {
		w.Fatal(err)
	}
	return w.spans.Ended()[before:]
}

// last is the span of the request, which ends last.
func last(spans []sdk.ReadOnlySpan) sdk.ReadOnlySpan { return spans[len(spans)-1] }

func value(s sdk.ReadOnlySpan, key attribute.Key) string {
	for _, a := range s.Attributes() {
		if a.Key == key {
			return a.Value.String()
		}
	}
	return "none"
}

const pod = `{"metadata":{"name":"p"},"spec":{"containers":[{"name":"c","image":"i"}]}}`

// TestNames: spans are named as upstream's, and know their requests.
func TestNames(t *testing.T) {
	w := start(t, sdk.AlwaysSample())
	for _, test := range []struct{ method, path, body, name, code string }{
		{"POST", "/api/v1/namespaces/default/pods", pod, "POST /api/v1/namespaces/{:namespace}/pods", "201"},
		{"GET", "/api/v1/namespaces/default/pods/p", "", "GET /api/v1/namespaces/{:namespace}/pods/{:name}", "200"},
		{"GET", "/api/v1/namespaces/default/pods/p/status", "", "GET /api/v1/namespaces/{:namespace}/pods/{:name}/status", "200"},
		{"GET", "/api/v1/pods?limit=1", "", "GET /api/v1/pods", "200"},
		{"GET", "/apis/rbac.authorization.k8s.io/v1/clusterroles/none", "", "GET /apis/rbac.authorization.k8s.io/v1/clusterroles/{:name}", "404"},
		{"GET", "/version", "", "GET", "200"},
	} {
		s := last(w.do(test.method, test.path, test.body, nil))
		if s.Name() != test.name || s.SpanKind() != trace.SpanKindServer || s.Parent().IsValid() || s.Status().Code != codes.Unset {
			t.Errorf("%s %s: %s, %v, %v, %v", test.method, test.path, s.Name(), s.SpanKind(), s.Parent(), s.Status())
		}
		path, _, _ := strings.Cut(test.path, "?")
		for key, want := range map[attribute.Key]string{
			"http.request.method": test.method, "http.response.status_code": test.code, "http.target": test.path, "url.path": path,
			"url.scheme": "http", "user_agent.original": "test/1", "server.address": "cluster.example", "network.protocol.version": "1.1",
		} {
			if got := value(s, key); got != want {
				t.Errorf("%s %s: %s is %s, want %s", test.method, test.path, key, got, want)
			}
		}
		if id := value(s, "audit-id"); len(id) != 36 {
			t.Errorf("%s %s: ID %q", test.method, test.path, id)
		}
		if !s.StartTime().Before(s.EndTime()) {
			t.Errorf("%s %s: from %v to %v", test.method, test.path, s.StartTime(), s.EndTime())
		}
	}
}

// TestToken: of a token in the URL only that there was one gets into a span.
func TestToken(t *testing.T) {
	w := start(t, sdk.AlwaysSample())
	s := last(w.do("GET", "/api/v1/pods?access_token=geheim&limit=1", "", nil))
	if got := value(s, "http.target"); got != "/api/v1/pods?access_token=REDACTED&limit=1" {
		t.Errorf("http.target is %s", got)
	}
	for _, a := range s.Attributes() {
		if strings.Contains(a.Value.String(), "geheim") {
			t.Errorf("%s is %s", a.Key, a.Value.String())
		}
	}
}

// TestStore: what a request does with the store is a part of its trace.
func TestStore(t *testing.T) {
	w := start(t, sdk.AlwaysSample())
	spans := w.do("POST", "/api/v1/namespaces/default/pods", pod, nil)
	request := last(spans)
	i := slices.IndexFunc(spans, func(s sdk.ReadOnlySpan) bool { return s.Name() == "Create storage" })
	if i < 0 || spans[i].Parent().SpanID() != request.SpanContext().SpanID() || spans[i].SpanContext().TraceID() != request.SpanContext().TraceID() {
		t.Fatalf("spans %v", spans)
	}
	if got := value(spans[i], "key"); !strings.HasSuffix(got, "/pods/default/p") {
		t.Errorf("key %s", got)
	}
}

// TestTraceOfTheClient: a trace that a client has begun is continued for those who may have it so, and otherwise linked to.
func TestTraceOfTheClient(t *testing.T) {
	for name, test := range map[string]struct {
		sampler   sdk.Sampler
		group     string
		sent      string
		spans     bool
		continued bool
	}{
		"administrator":            {sdk.NeverSample(), "system:masters", theirs, true, true},
		"monitoring":               {sdk.NeverSample(), "system:monitoring", theirs, true, true},
		"administrator, unsampled": {sdk.AlwaysSample(), "system:masters", unsampled, false, false},
		"another":                  {sdk.NeverSample(), "system:authenticated", theirs, false, false},
		"another, by chance":       {sdk.AlwaysSample(), "system:authenticated", unsampled, true, false},
		"nonsense":                 {sdk.AlwaysSample(), "system:masters", "00-zz", true, false},
		"nothing":                  {sdk.NeverSample(), "system:masters", "", false, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := start(t, test.sampler)
			spans := w.do("GET", "/api/v1/pods", "", http.Header{"Traceparent": {test.sent}, "Group": {test.group}})
			if (len(spans) > 0) != test.spans {
				t.Fatalf("%d spans", len(spans))
			}
			if !test.spans {
				return
			}
			s := last(spans)
			if got := s.SpanContext().TraceID().String() == theirTrace; got != test.continued || s.Parent().IsValid() != test.continued {
				t.Errorf("trace %v, parent %v", s.SpanContext().TraceID(), s.Parent())
			}
			links := test.sent == theirs || test.sent == unsampled
			if links = links && !test.continued; links != (len(s.Links()) == 1) || links && s.Links()[0].SpanContext.TraceID().String() != theirTrace {
				t.Errorf("links %v", s.Links())
			}
		})
	}
}

// TestFailure: an answer that is the server's fault is an error of the span.
func TestFailure(t *testing.T) {
	recorder := tracetest.NewSpanRecorder()
	tracer := tracing.New(sdk.NewTracerProvider(sdk.WithSpanProcessor(recorder)))
	for _, code := range []int{0, 200, 404, 499, 500, 503} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://cluster.example/version", nil)
		if err != nil {
			t.Fatal(err)
		}
		_, end := tracer.Trace(t.Context(), r, &apiserver.Traced{Request: &apiserver.Request{Verb: "get", Path: "/version"}})
		end(code)
		want, said := codes.Unset, fmt.Sprint(code)
		if code >= 500 {
			want = codes.Error
		}
		if code == 0 {
			said = "none"
		}
		if s := last(recorder.Ended()); s.Status().Code != want || value(s, "http.response.status_code") != said {
			t.Errorf("%d: %v, %s", code, s.Status(), value(s, "http.response.status_code"))
		}
	}
}
