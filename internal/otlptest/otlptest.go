// Package otlptest is a collector of OpenTelemetry spans for tests.
package otlptest

import (
	"context"
	"net"
	"slices"
	"sync"
	"testing"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/grpc"
)

// Span is a span that arrived.
type Span struct {
	Service, Instance string // what sent it
	Name              string
	ID, Parent        string // bytes
}

// Collector takes spans over gRPC, without TLS, on loopback. Start makes one.
type Collector struct {
	// Endpoint is where it listens.
	Endpoint string

	collector.UnimplementedTraceServiceServer
	mu    sync.Mutex
	spans []Span
}

// Start runs a collector until the test ends.
func Start(t testing.TB) *Collector {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c, server := &Collector{Endpoint: l.Addr().String()}, grpc.NewServer()
	collector.RegisterTraceServiceServer(server, c)
	var running sync.WaitGroup
	running.Go(func() { _ = server.Serve(l) }) // ends with the server
	t.Cleanup(func() {
		server.Stop()
		running.Wait()
	})
	return c
}

// Spans returns what has arrived so far.
func (c *Collector) Spans() []Span {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.spans)
}

// Export implements the service.
func (c *Collector) Export(_ context.Context, r *collector.ExportTraceServiceRequest) (*collector.ExportTraceServiceResponse, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, resource := range r.GetResourceSpans() {
		of := map[string]string{}
		for _, a := range resource.GetResource().GetAttributes() {
			of[a.GetKey()] = a.GetValue().GetStringValue()
		}
		for _, scope := range resource.GetScopeSpans() {
			for _, s := range scope.GetSpans() {
				c.spans = append(c.spans, Span{of["service.name"], of["service.instance.id"], s.GetName(), string(s.GetSpanId()), string(s.GetParentSpanId())})
			}
		}
	}
	return &collector.ExportTraceServiceResponse{}, nil
}
