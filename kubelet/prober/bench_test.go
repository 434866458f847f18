package prober_test

import (
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/keelson-dev/keelson/kubelet/prober"
)

// BenchmarkProbe measures the cost of one probe, including the server's part.
func BenchmarkProbe(b *testing.B) {
	web := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer web.Close()
	httpPort := intstr.FromInt(web.Listener.Addr().(*net.TCPAddr).Port)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	server, done := grpc.NewServer(), make(chan error)
	healthpb.RegisterHealthServer(server, health.NewServer())
	go func() { done <- server.Serve(listener) }()
	defer func() {
		server.Stop()
		if err := <-done; err != nil {
			b.Error(err)
		}
	}()
	p := prober.New(prober.Options{})
	for name, handler := range map[string]corev1.ProbeHandler{
		"http": {HTTPGet: &corev1.HTTPGetAction{Port: httpPort}},
		"tcp":  {TCPSocket: &corev1.TCPSocketAction{Port: httpPort}},
		"grpc": {GRPC: &corev1.GRPCAction{Port: int32(listener.Addr().(*net.TCPAddr).Port)}},
	} {
		b.Run(name, func(b *testing.B) {
			in := target(pod(), handler)
			b.ReportAllocs()
			for b.Loop() {
				if err := p.Probe(b.Context(), in); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
