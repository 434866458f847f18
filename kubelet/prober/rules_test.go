package prober_test

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/keelson-dev/keelson/kubelet"
	"github.com/keelson-dev/keelson/kubelet/prober"
)

func getting(t *testing.T, server *httptest.Server) corev1.ProbeHandler {
	t.Helper()
	return corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Port: intstr.FromInt32(portOf(t, server.Listener.Addr().String()))}}
}

// Responses from 300 on cause a warning; those from 400 on and below 200 are failures.
func TestWhichAnswersWarn(t *testing.T) {
	for code, want := range map[int][2]string{
		101: {"HTTP probe failed with statuscode: 101", ""}, 200: {}, 299: {}, 400: {"HTTP probe failed with statuscode: 400", ""},
		300: {"", "Probe terminated redirects, Response body: x"}, 399: {"", "Probe terminated redirects, Response body: x"},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(code)
			if code != http.StatusSwitchingProtocols {
				_, _ = io.WriteString(w, "x")
			}
		}))
		var seen recorder
		check(t, prober.New(prober.Options{Recorder: &seen}).Probe(t.Context(), target(pod(), getting(t, server))), want[0])
		if got := strings.Join(seen.list, "\n"); want[1] == "" && got != "" || !strings.HasSuffix(got, want[1]) {
			t.Errorf("%d: told %q", code, got)
		}
		server.Close()
	}
}

// A warning names the probe and the container, as far as they are known.
func TestWhatWarningsAreAbout(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotModified) }))
	defer server.Close()
	warned := func(change func(*kubelet.ProbeTarget)) string {
		t.Helper()
		var seen recorder
		in := target(pod(), getting(t, server))
		change(&in)
		check(t, prober.New(prober.Options{Recorder: &seen}).Probe(t.Context(), in), "")
		return strings.Join(seen.list, "\n")
	}
	const rest = " probe warning: Probe terminated redirects, Response body: "
	for want, change := range map[string]func(*kubelet.ProbeTarget){
		"Warning ProbeWarning webspec.containers{c}: Liveness" + rest: func(in *kubelet.ProbeTarget) {
			in.Pod.Spec.InitContainers = []corev1.Container{{Name: "other"}}
		},
		"Warning ProbeWarning webspec.containers{c}: Readiness" + rest: func(in *kubelet.ProbeTarget) {
			in.Container.LivenessProbe, in.Container.ReadinessProbe = nil, in.Probe
		},
		"Warning ProbeWarning webspec.containers{c}: Startup" + rest: func(in *kubelet.ProbeTarget) {
			in.Container.LivenessProbe, in.Container.StartupProbe = nil, in.Probe
		},
		"Warning ProbeWarning webspec.initContainers{side}: Liveness" + rest: func(in *kubelet.ProbeTarget) {
			in.Pod.Spec.InitContainers = []corev1.Container{{Name: "other"}, {Name: "side"}}
			in.Container = &in.Pod.Spec.InitContainers[1]
			in.Container.LivenessProbe = in.Probe
		},
	} {
		if got := warned(change); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	for name, change := range map[string]func(*kubelet.ProbeTarget){
		"no pod":       func(in *kubelet.ProbeTarget) { in.Pod = nil },
		"no container": func(in *kubelet.ProbeTarget) { in.Container = nil },
	} {
		if got := warned(change); got != "" {
			t.Errorf("%s: told %q", name, got)
		}
	}
	// The recorder is optional.
	check(t, prober.New(prober.Options{}).Probe(t.Context(), target(pod(), getting(t, server))), "")
}

// Every probe and every hook opens its own connection and closes it.
func TestConnectionsAreNotKept(t *testing.T) {
	var opened, open atomic.Int32
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		switch state {
		case http.StateNew:
			opened.Add(1)
			open.Add(1)
		case http.StateClosed:
			open.Add(-1)
		}
	}
	server.Start()
	p, in := prober.New(prober.Options{}), target(pod(), getting(t, server))
	for range 3 {
		check(t, p.Probe(t.Context(), in), "")
		check(t, p.Hook(t.Context(), in, in.Probe.HTTPGet), "")
	}
	server.Close() // waits for open connections
	if opened.Load() != 6 || open.Load() != 0 {
		t.Errorf("%d connections, %d of them open", opened.Load(), open.Load())
	}
}

// Probes use HTTP/2 if the server supports it, hooks HTTP/1.1.
func TestProtocols(t *testing.T) {
	var seen atomic.Value
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { seen.Store(r.Proto) }))
	server.EnableHTTP2 = true
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
	server.StartTLS()
	defer server.Close()
	p, in := prober.New(prober.Options{}), target(pod(), getting(t, server))
	in.Probe.HTTPGet.Scheme = corev1.URISchemeHTTPS
	check(t, p.Probe(t.Context(), in), "")
	if got := seen.Load(); got != "HTTP/2.0" {
		t.Errorf("a probe speaks %s", got)
	}
	check(t, p.Hook(t.Context(), in, in.Probe.HTTPGet), "")
	if got := seen.Load(); got != "HTTP/1.1" {
		t.Errorf("a hook speaks %s", got)
	}
}

// A probe's timeout is the one in its spec, one second by default, and at most its caller's.
func TestTimeouts(t *testing.T) {
	slow := serveGRPC(t, func(s *grpc.Server) { healthpb.RegisterHealthServer(s, hanging{}) })
	for seconds, want := range map[int32]string{0: "1s", -1: "1s", 7: "7s"} {
		in := target(pod(), corev1.ProbeHandler{GRPC: &corev1.GRPCAction{Port: slow}})
		in.Probe.TimeoutSeconds = seconds
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		check(t, prober.New(prober.Options{}).Probe(ctx, in), "timeout: health rpc did not complete within "+want)
		cancel()
	}
}

// A container that could not be probed has not failed.
func TestWhatCannotBeAsked(t *testing.T) {
	port := intstr.FromInt32(80)
	for name, tt := range map[string]struct {
		handler corev1.ProbeHandler
		change  func(*kubelet.ProbeTarget)
		want    string
	}{
		"HTTP without an address": {corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Port: port}}, func(in *kubelet.ProbeTarget) { in.IPs = nil }, "the pod has no IP address"},
		"TCP without an address":  {corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: port}}, func(in *kubelet.ProbeTarget) { in.IPs = []string{""} }, "the pod has no IP address"},
		"gRPC without an address": {corev1.ProbeHandler{GRPC: &corev1.GRPCAction{Port: 80}}, func(in *kubelet.ProbeTarget) { in.IPs, in.Pod = nil, nil }, "the pod has no IP address"},
		"HTTP without a port":     {corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{}}, func(*kubelet.ProbeTarget) {}, "invalid port number: 0"},
		"TCP without a port":      {corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{}}, func(*kubelet.ProbeTarget) {}, "invalid port number: 0"},
		"TCP, too large a port":   {corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt32(65536)}}, func(*kubelet.ProbeTarget) {}, "invalid port number: 65536"},
		"nothing":                 {corev1.ProbeHandler{}, func(*kubelet.ProbeTarget) {}, "missing probe handler for web_ns(u1):c"},
		"no pod and no container": {corev1.ProbeHandler{}, func(in *kubelet.ProbeTarget) { in.Pod, in.Container = nil, nil }, "missing probe handler for :"},
	} {
		t.Run(name, func(t *testing.T) {
			in := target(pod(), tt.handler)
			tt.change(&in)
			err := prober.New(prober.Options{}).Probe(t.Context(), in)
			check(t, err, tt.want)
			if state, ok := errors.AsType[*prober.Error](err); !ok || state.ProbeState() != "unknown" {
				t.Errorf("the state is that of %T", err)
			}
		})
	}
	in := target(pod(), corev1.ProbeHandler{})
	in.Probe = nil
	check(t, prober.New(prober.Options{}).Probe(t.Context(), in), "")
}

// A pod on the node's network without an address is probed at the node's address.
func TestHostNetwork(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer server.Close()
	for _, ips := range [][]string{nil, {""}} {
		in := target(pod(func(p *corev1.Pod) { p.Spec.HostNetwork = true }), getting(t, server))
		in.IPs = ips
		for _, host := range []string{"", "127.0.0.1"} {
			check(t, prober.New(prober.Options{HostIP: host}).Probe(t.Context(), in), "")
		}
	}
}

// Only a server that speaks HTTP instead of HTTPS is called again.
func TestNoFallback(t *testing.T) {
	var asked atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { asked.Add(1) }))
	defer server.Close()
	l := listen(t)
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = io.WriteString(conn, "this is neither")
			_ = conn.Close()
		}
	}()
	defer func() { _ = l.Close() }()
	var seen recorder
	p, pod := prober.New(prober.Options{Recorder: &seen}), pod()
	in := kubelet.ProbeTarget{Pod: pod, Container: &pod.Spec.Containers[0], IPs: []string{"127.0.0.1"}}
	err := p.Hook(t.Context(), in, &corev1.HTTPGetAction{Scheme: corev1.URISchemeHTTPS, Port: intstr.FromInt32(portOf(t, l.Addr().String()))})
	if err == nil || len(seen.list) > 0 {
		t.Errorf("got %v, told %q", err, seen.list)
	}
	in.Pod = nil // there is no subject for an event
	check(t, p.Hook(t.Context(), in, &corev1.HTTPGetAction{Scheme: corev1.URISchemeHTTPS, Port: intstr.FromInt32(portOf(t, server.Listener.Addr().String()))}), "")
	if asked.Load() != 1 || len(seen.list) > 0 {
		t.Errorf("asked %d times, told %q", asked.Load(), seen.list)
	}
	check(t, p.Hook(t.Context(), in, &corev1.HTTPGetAction{Port: intstr.FromString("unknown")}), `strconv.Atoi: parsing "unknown": invalid syntax`)
}
