package tracing_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/keelson-dev/keelson/internal/otlptest"
	"github.com/keelson-dev/keelson/tracing"
)

// run runs a provider while something is done.
func run(t *testing.T, p *tracing.Provider, do func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- p.Run(ctx) }()
	waitRecording(p)
	do()
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// waitRecording waits until a provider runs: before, no span records.
func waitRecording(p *tracing.Provider) {
	for range 200 {
		_, span := p.Tracer("test").Start(context.Background(), "probe")
		on := span.IsRecording()
		if on {
			return // it never ends, so it is not sent
		}
		time.Sleep(time.Millisecond)
	}
}

// TestSent: spans arrive at the collector, the last ones when the provider ends.
func TestSent(t *testing.T) {
	c := otlptest.Start(t)
	p, err := tracing.New(tracing.Config{Endpoint: &c.Endpoint, SamplingRatePerMillion: new(int32(1000000))}, tracing.Options{Service: "apiserver", Instance: "one"})
	if err != nil {
		t.Fatal(err)
	}
	_, early := p.Tracer("test").Start(t.Context(), "too early")
	early.End()
	run(t, p, func() {
		for _, name := range []string{"a", "b"} {
			_, span := p.Tracer("test").Start(t.Context(), name)
			span.End()
		}
	})
	_, late := p.Tracer("test").Start(t.Context(), "too late")
	late.End()
	var got []string
	for _, s := range c.Spans() {
		got = append(got, s.Service+" "+s.Instance+": "+s.Name)
	}
	if want := []string{"apiserver one: a", "apiserver one: b"}; !slices.Equal(got, want) {
		t.Errorf("sent %q", got)
	}
}

// TestSampling: without a rate nothing is sent, unless somebody else has begun the trace.
func TestSampling(t *testing.T) {
	for _, rate := range []*int32{nil, new(int32(0))} {
		c := otlptest.Start(t)
		p, err := tracing.New(tracing.Config{Endpoint: &c.Endpoint, SamplingRatePerMillion: rate}, tracing.Options{})
		if err != nil {
			t.Fatal(err)
		}
		run(t, p, func() {
			_, span := p.Tracer("test").Start(t.Context(), "a")
			span.End()
		})
		if got := c.Spans(); len(got) > 0 {
			t.Errorf("sent %v", got)
		}
	}
}

// TestLongValues: attributes are cut, since clients choose them.
func TestLongValues(t *testing.T) {
	p, err := tracing.New(tracing.Config{SamplingRatePerMillion: new(int32(1000000))}, tracing.Options{Flush: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	run(t, p, func() {
		_, span := p.Tracer("test").Start(t.Context(), "a", trace.WithAttributes(attribute.String("long", strings.Repeat("x", 1<<20))))
		if got := span.(sdk.ReadOnlySpan).Attributes()[0].Value.AsString(); len(got) != 2048 {
			t.Errorf("%d bytes are kept", len(got))
		}
	})
}

// TestNoCollector: a collector that is not there is told of at the end, which it does not delay for long.
func TestNoCollector(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	endpoint := l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	p, err := tracing.New(tracing.Config{Endpoint: &endpoint, SamplingRatePerMillion: new(int32(1000000))},
		tracing.Options{Flush: 100 * time.Millisecond, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	run(t, p, func() {
		_, span := p.Tracer("test").Start(t.Context(), "a")
		span.End()
	})
	if !strings.Contains(log.String(), "the last spans were not sent") {
		t.Errorf("log %q", log.String())
	}
}

// TestFiles: a file is read as upstream's API server reads it; what is wrong is told with file, line and field.
func TestFiles(t *testing.T) {
	const head = "apiVersion: apiserver.config.k8s.io/v1\nkind: TracingConfiguration\n"
	for text, want := range map[string]string{
		head: "",
		head + "endpoint: localhost:4317\nsamplingRatePerMillion: 1000000\n":   "",
		strings.Replace(head, "/v1", "/v1alpha1", 1) + "endpoint: dns://a:1\n": "",
		strings.Replace(head, "/v1", "/v1beta1", 1) + "endpoint: unix:///a\n":  "",
		head + "endpoint: unix-abstract://a\n":                                 "",
		strings.Replace(head, "/v1", "/v2", 1):                                 `:1: apiVersion "apiserver.config.k8s.io/v2" and kind "TracingConfiguration": want apiVersion apiserver.config.k8s.io/v1 and kind TracingConfiguration`,
		head + "samplingRatePerMillion: -1\n":                                  ":3: samplingRatePerMillion: Invalid value: -1: sampling rate must be positive",
		head + "endpoint: a:1\nsamplingRatePerMillion: 1000001\n":              ":4: samplingRatePerMillion: Invalid value: 1000001: sampling rate per million must be less than or equal to one million",
		head + "endpoint: https://a\n":                                         `:3: endpoint: Invalid value: "https://a": unsupported scheme: https.  Options are none, dns, unix, or unix-abstract.  See https://github.com/grpc/grpc/blob/master/doc/naming.md`,
		head + "endpoint: \"a\\x7f\"\n":                                        `:3: endpoint: Invalid value: "dns://a\x7f": parse "dns://a\x7f": net/url: invalid control character in URL`,
		head + "rate: 1\n":                                                     `:3: unknown field "rate"`,
	} {
		path := filepath.Join(t.TempDir(), "tracing.yaml")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		c, err := tracing.Open(path)
		if want != "" {
			want = path + want
		}
		if got := message(err); got != want {
			t.Errorf("%s:\n got %s\nwant %s", text, got, want)
		}
		var wrong *tracing.Error
		if want != "" && !errors.As(err, &wrong) {
			t.Errorf("%T", err)
		}
		if strings.Contains(text, "localhost") && (*c.Endpoint != "localhost:4317" || *c.SamplingRatePerMillion != 1000000) {
			t.Errorf("read %+v", c)
		}
		if _, err := tracing.New(c, tracing.Options{}); (err != nil) != strings.Contains(want, "Invalid value") {
			t.Errorf("%s: %v", text, err)
		}
	}
	if _, err := tracing.Open("none"); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}

func message(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// TestTransport: a request is a span below that of its context, which the server is told of; without one it goes as it is.
func TestTransport(t *testing.T) {
	sent := make(chan string, 1)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { sent <- r.Header.Get("Traceparent") }))
	defer server.Close()
	recorder := tracetest.NewSpanRecorder()
	tracer := sdk.NewTracerProvider(sdk.WithSpanProcessor(recorder)).Tracer("test")
	client := &http.Client{Transport: tracing.Transport(http.DefaultTransport)}
	get := func(ctx context.Context) string {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		if err := resp.Body.Close(); err != nil {
			t.Error(err)
		}
		return <-sent
	}
	if got := get(t.Context()); got != "" {
		t.Errorf("without a span it said %s", got)
	}
	ctx, span := tracer.Start(t.Context(), "request")
	got, ended := get(ctx), recorder.Ended()
	if len(ended) != 1 || ended[0].Parent().SpanID() != span.SpanContext().SpanID() ||
		got != "00-"+span.SpanContext().TraceID().String()+"-"+ended[0].SpanContext().SpanID().String()+"-01" {
		t.Errorf("it said %s; spans %v", got, ended)
	}
}
