package prober_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/stats"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/keelson-dev/keelson/kubelet/prober"
)

// TestConnections: connections linger for a second, like upstream's, and a TLS handshake without an answer is given up
// after ten.
func TestConnections(t *testing.T) {
	conn, err := prober.NewDialer().DialContext(t.Context(), "tcp", listen(t).Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	raw, err := conn.(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var got *unix.Linger
	if outer := raw.Control(func(fd uintptr) { got, err = unix.GetsockoptLinger(int(fd), unix.SOL_SOCKET, unix.SO_LINGER) }); outer != nil || err != nil {
		t.Fatal(outer, err)
	}
	if got.Onoff == 0 || got.Linger != 1 {
		t.Errorf("lingers %+v", got)
	}
	if got := prober.ProbeTransport().TLSHandshakeTimeout; got != 10*time.Second {
		t.Errorf("handshakes may take %s", got)
	}
}

// TestHookHearsOut: a hook waits for the end of a response that is not too large.
func TestHookHearsOut(t *testing.T) {
	var over atomic.Bool
	for name, test := range map[string]struct {
		length int
		heard  bool
	}{"little": {2, true}, "as much as may be": {10 << 10, true}, "too much": {10<<10 + 1, false}} {
		t.Run(name, func(t *testing.T) {
			over.Store(false)
			left := make(chan struct{})
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				defer close(left)
				w.Header().Set("Content-Length", fmt.Sprint(test.length))
				_, _ = io.WriteString(w, "x")
				_ = http.NewResponseController(w).Flush()
				if !test.heard {
					<-r.Context().Done() // the client has hung up
					return
				}
				time.Sleep(20 * time.Millisecond) // a client that does not wait is gone by then
				over.Store(true)
				_, _ = w.Write(make([]byte, test.length-1))
			}))
			defer server.Close()
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			if err := prober.New(prober.Options{}).Hook(ctx, target(pod(), corev1.ProbeHandler{}), getting(t, server).HTTPGet); err != nil {
				t.Error(err)
			}
			if over.Load() != test.heard || ctx.Err() != nil {
				t.Errorf("heard out: %t, %v", over.Load(), ctx.Err())
			}
			<-left
		})
	}
}

// ends reports connections that have ended.
type ends struct{ ended chan struct{} }

func (ends) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context   { return ctx }
func (ends) HandleRPC(context.Context, stats.RPCStats)                         {}
func (ends) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }
func (e ends) HandleConn(_ context.Context, s stats.ConnStats) {
	if _, ok := s.(*stats.ConnEnd); ok {
		e.ended <- struct{}{}
	}
}

// TestGRPCHangsUp: a gRPC probe leaves no connection behind.
func TestGRPCHangsUp(t *testing.T) {
	listener := listen(t)
	told := ends{make(chan struct{}, 1)}
	server := grpc.NewServer(grpc.StatsHandler(told))
	healthpb.RegisterHealthServer(server, health.NewServer())
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	handler := corev1.ProbeHandler{GRPC: &corev1.GRPCAction{Port: portOf(t, listener.Addr().String())}}
	check(t, prober.New(prober.Options{}).Probe(t.Context(), target(pod(), handler)), "")
	select {
	case <-told.ended:
	case <-time.After(20 * time.Second):
		t.Error("the connection is kept")
	}
	server.Stop()
	if err := <-served; err != nil {
		t.Error(err)
	}
}

// caller is a context that counts those waiting for its end.
type caller struct {
	context.Context
	waiting *atomic.Int32
}

func (caller) Done() <-chan struct{} { return make(chan struct{}) }
func (caller) Value(any) any         { return nil }
func (c caller) AfterFunc(func()) (stop func() bool) {
	c.waiting.Add(1)
	return func() bool { c.waiting.Add(-1); return true }
}

// TestCallersAreLetGo: a finished probe does not keep waiting for its caller's context, which may live long.
func TestCallersAreLetGo(t *testing.T) {
	in := caller{t.Context(), new(atomic.Int32)}
	port := closedPort(t)
	p := prober.New(prober.Options{})
	for range 3 {
		if err := p.Probe(in, target(pod(), corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt32(port)}})); err == nil {
			t.Error("nobody listens")
		}
	}
	if n := in.waiting.Load(); n != 0 {
		t.Errorf("%d wait for the caller's end", n)
	}
}
