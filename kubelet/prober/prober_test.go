package prober_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/keelson-dev/keelson/events"
	"github.com/keelson-dev/keelson/kubelet"
	"github.com/keelson-dev/keelson/kubelet/prober"
)

// recorder collects events.
type recorder struct {
	mu   sync.Mutex
	list []string
}

func (r *recorder) Record(e events.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.list = append(r.list, fmt.Sprintf("%s %s %s%s: %s", e.Type, e.Reason, e.Regarding.Name, e.Regarding.FieldPath, e.Message))
}

func pod(change ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web", UID: "u1"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c"}}},
	}
	for _, f := range change {
		f(p)
	}
	return p
}

// target is the liveness probe of the pod's only container.
func target(p *corev1.Pod, handler corev1.ProbeHandler) kubelet.ProbeTarget {
	c := &p.Spec.Containers[0]
	c.LivenessProbe = &corev1.Probe{ProbeHandler: handler, TimeoutSeconds: 10}
	return kubelet.ProbeTarget{Pod: p, Container: c, IPs: []string{"127.0.0.1"}, Probe: c.LivenessProbe}
}

func portOf(t *testing.T, address string) int32 {
	t.Helper()
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.ParseInt(port, 10, 32)
	if err != nil {
		t.Fatal(err)
	}
	return int32(n)
}

// closedPort returns a port on which nothing listens.
func closedPort(t *testing.T) int32 {
	t.Helper()
	l := listen(t)
	_ = l.Close()
	return portOf(t, l.Addr().String())
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// silent is a port that accepts connections and sends nothing.
func silent(t *testing.T) int32 {
	t.Helper()
	l := listen(t)
	var group sync.WaitGroup
	group.Go(func() {
		var open []net.Conn
		for {
			c, err := l.Accept()
			if err != nil {
				break
			}
			open = append(open, c)
		}
		for _, c := range open {
			_ = c.Close()
		}
	})
	t.Cleanup(func() { _ = l.Close(); group.Wait() })
	return portOf(t, l.Addr().String())
}

func check(t *testing.T, err error, want string) {
	t.Helper()
	got := ""
	if err != nil {
		got = err.Error()
	}
	if got != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

func TestHTTPAnswers(t *testing.T) {
	mux := http.NewServeMux()
	mux.HandleFunc("/status/{code}", func(w http.ResponseWriter, r *http.Request) {
		code, _ := strconv.Atoi(r.PathValue("code"))
		w.WriteHeader(code)
	})
	mux.HandleFunc("/local", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/status/200", http.StatusFound) })
	mux.HandleFunc("/away", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "http://elsewhere.invalid/", http.StatusFound)
	})
	mux.HandleFunc("/round", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/round", http.StatusFound) })
	mux.HandleFunc("/big", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, strings.Repeat("x", 1<<20)) })
	mux.HandleFunc("/query", func(w http.ResponseWriter, r *http.Request) {
		if r.URL.RawQuery != "a=b" {
			w.WriteHeader(http.StatusBadRequest)
		}
	})
	server := httptest.NewServer(mux)
	defer server.Close()
	port := portOf(t, server.Listener.Addr().String())
	for path, want := range map[string]string{
		"/status/200": "",
		"/status/204": "",
		"/status/304": "",
		"/status/399": "",
		"/status/400": "HTTP probe failed with statuscode: 400",
		"/status/500": "HTTP probe failed with statuscode: 500",
		"status/200":  "",
		"/local":      "",
		"/away":       "",
		"/big":        "",
		"/query?a=b":  "",
		"/round":      `Get "/round": stopped after 10 redirects`,
	} {
		t.Run(path, func(t *testing.T) {
			in := target(pod(), corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: path, Port: intstr.FromInt32(port)}})
			check(t, prober.New(prober.Options{}).Probe(t.Context(), in), want)
		})
	}
}

func TestRedirectToAnotherHostIsAWarning(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Location", "http://elsewhere.invalid/")
		w.WriteHeader(http.StatusFound)
		_, _ = io.WriteString(w, "over there")
	}))
	defer server.Close()
	var seen recorder
	p := prober.New(prober.Options{Recorder: &seen})
	in := target(pod(), corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Port: intstr.FromInt32(portOf(t, server.Listener.Addr().String()))}})
	check(t, p.Probe(t.Context(), in), "")
	want := "Warning ProbeWarning webspec.containers{c}: Liveness probe warning: Probe terminated redirects, Response body: over there"
	if len(seen.list) != 1 || seen.list[0] != want {
		t.Errorf("got %q, want %q", seen.list, want)
	}
}

func TestWhatTheServerSees(t *testing.T) {
	for name, test := range map[string]struct {
		headers []corev1.HTTPHeader
		path    string
		want    string
	}{
		"nothing given": {want: "GET / HOST Accept=*/* Connection=close User-Agent=kube-probe/1.37"},
		"own headers": {
			headers: []corev1.HTTPHeader{
				{Name: "x-a", Value: "1"}, {Name: "X-A", Value: "2"}, {Name: "user-agent", Value: "me"}, {Name: "Host", Value: "a.example"},
				{Name: "accept", Value: "text/plain"},
			},
			path: "/p?q=1",
			want: "GET /p?q=1 a.example Accept=text/plain Connection=close User-Agent=me X-A=1,2",
		},
		"no accept": {headers: []corev1.HTTPHeader{{Name: "Accept"}}, want: "GET / HOST Connection=close User-Agent=kube-probe/1.37"},
	} {
		t.Run(name, func(t *testing.T) {
			got := make(chan string, 1)
			server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				line := []string{r.Method, r.URL.RequestURI(), r.Host}
				for _, h := range []string{"Accept", "Accept-Encoding", "Connection", "User-Agent", "X-A"} {
					if v := r.Header.Values(h); len(v) > 0 {
						line = append(line, h+"="+strings.Join(v, ","))
					}
				}
				got <- strings.Join(line, " ")
			}))
			defer server.Close()
			address := server.Listener.Addr().String()
			in := target(pod(), corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{
				Path: test.path, Port: intstr.FromInt32(portOf(t, address)), HTTPHeaders: test.headers,
			}})
			check(t, prober.New(prober.Options{}).Probe(t.Context(), in), "")
			if line := <-got; line != strings.Replace(test.want, "HOST", address, 1) {
				t.Errorf("got %s, want %s", line, test.want)
			}
		})
	}
}

func TestHTTPSIsNotVerified(t *testing.T) {
	server := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer server.Close()
	in := target(pod(), corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{
		Scheme: corev1.URISchemeHTTPS, Port: intstr.FromInt32(portOf(t, server.Listener.Addr().String())),
	}})
	check(t, prober.New(prober.Options{}).Probe(t.Context(), in), "")
}

func TestHTTPFailures(t *testing.T) {
	closed, mute := closedPort(t), silent(t)
	p := prober.New(prober.Options{})
	probe := func(port int32) error {
		in := target(pod(), corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/x", Port: intstr.FromInt32(port)}})
		in.Probe.TimeoutSeconds = 1
		return p.Probe(t.Context(), in)
	}
	check(t, probe(closed), fmt.Sprintf(`Get "http://127.0.0.1:%d/x": dial tcp 127.0.0.1:%d: connect: connection refused`, closed, closed))
	check(t, probe(mute), fmt.Sprintf(`Get "http://127.0.0.1:%d/x": context deadline exceeded (Client.Timeout exceeded while awaiting headers)`, mute))
}

func TestCallersTimeCounts(t *testing.T) {
	mute := silent(t)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	p := prober.New(prober.Options{})
	web := target(pod(), corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Port: intstr.FromInt32(mute)}})
	web.Probe.TimeoutSeconds = 3600
	check(t, p.Probe(ctx, web), fmt.Sprintf(`Get "http://127.0.0.1:%d": context deadline exceeded (Client.Timeout exceeded while awaiting headers)`, mute))

	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if err := p.Probe(gone, web); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want %v", err, context.Canceled)
	}
	rpc := target(pod(), corev1.ProbeHandler{GRPC: &corev1.GRPCAction{Port: mute}})
	if err := p.Probe(gone, rpc); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want %v", err, context.Canceled)
	}
}

func TestAnswerThatBreaksOff(t *testing.T) {
	var mu sync.Mutex
	asked := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		asked++
		w.Header().Set("Content-Length", "100")
		_, _ = io.WriteString(w, "short")
	}))
	defer server.Close()
	in := target(pod(), corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Port: intstr.FromInt32(portOf(t, server.Listener.Addr().String()))}})
	err := prober.New(prober.Options{}).Probe(t.Context(), in)
	var broken *prober.Error
	if !errors.As(err, &broken) || broken.State != "failure" || !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("got %v", err)
	}
	mu.Lock()
	defer mu.Unlock()
	if asked != 3 {
		t.Errorf("asked %d times, want 3", asked)
	}
}

func TestPortsAndHosts(t *testing.T) {
	l := listen(t)
	port := portOf(t, l.Addr().String())
	named := func(p *corev1.Pod) {
		p.Spec.Containers[0].Ports = []corev1.ContainerPort{{Name: "web", ContainerPort: port}, {Name: "zero"}}
	}
	tcp := func(port intstr.IntOrString, host string) corev1.ProbeHandler {
		return corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: port, Host: host}}
	}
	for name, test := range map[string]struct {
		handler corev1.ProbeHandler
		change  func(*kubelet.ProbeTarget)
		want    string
		unknown bool
	}{
		"number":           {handler: tcp(intstr.FromInt32(port), "")},
		"name":             {handler: tcp(intstr.FromString("web"), "")},
		"number in quotes": {handler: tcp(intstr.FromString(strconv.Itoa(int(port))), "")},
		"host":             {handler: tcp(intstr.FromInt32(port), "localhost"), change: func(in *kubelet.ProbeTarget) { in.IPs = nil }},
		"unknown name":     {handler: tcp(intstr.FromString("x"), ""), want: `strconv.Atoi: parsing "x": invalid syntax`, unknown: true},
		"port 0":           {handler: tcp(intstr.FromString("zero"), ""), want: "invalid port number: 0", unknown: true},
		"port too high":    {handler: tcp(intstr.FromInt32(65536), ""), want: "invalid port number: 65536", unknown: true},
		"unknown kind":     {handler: tcp(intstr.IntOrString{Type: 7}, ""), want: "intOrString had no kind: {Type:7 IntVal:0 StrVal:}", unknown: true},
		"no address":       {handler: tcp(intstr.FromInt32(port), ""), change: func(in *kubelet.ProbeTarget) { in.IPs = nil }, want: "the pod has no IP address", unknown: true},
		"host network": {handler: tcp(intstr.FromInt32(port), ""), change: func(in *kubelet.ProbeTarget) {
			in.IPs, in.Pod.Spec.HostNetwork = nil, true
		}},
		"no handler": {want: "missing probe handler for web_ns(u1):c", unknown: true},
	} {
		t.Run(name, func(t *testing.T) {
			in := target(pod(named), test.handler)
			if test.change != nil {
				test.change(&in)
			}
			err := prober.New(prober.Options{}).Probe(t.Context(), in)
			var state interface{ ProbeState() string }
			if errors.As(err, &state) != test.unknown || test.unknown && state.ProbeState() != "unknown" {
				t.Errorf("unknown should be %t: %v", test.unknown, err)
			}
			check(t, err, test.want)
		})
	}
}

func TestTCPRefused(t *testing.T) {
	closed := closedPort(t)
	in := target(pod(), corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt32(closed)}})
	check(t, prober.New(prober.Options{}).Probe(t.Context(), in), fmt.Sprintf("dial tcp 127.0.0.1:%d: connect: connection refused", closed))
}

// serveGRPC serves until the test ends.
func serveGRPC(t *testing.T, register func(*grpc.Server)) int32 {
	t.Helper()
	l, server := listen(t), grpc.NewServer()
	register(server)
	var group sync.WaitGroup
	group.Go(func() { _ = server.Serve(l) })
	t.Cleanup(func() { server.Stop(); group.Wait() })
	return portOf(t, l.Addr().String())
}

// hanging is a health service that does not answer.
type hanging struct {
	healthpb.UnimplementedHealthServer
}

func (hanging) Check(ctx context.Context, _ *healthpb.HealthCheckRequest) (*healthpb.HealthCheckResponse, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func TestGRPC(t *testing.T) {
	healthy := serveGRPC(t, func(s *grpc.Server) {
		h := health.NewServer()
		h.SetServingStatus("good", healthpb.HealthCheckResponse_SERVING)
		h.SetServingStatus("bad", healthpb.HealthCheckResponse_NOT_SERVING)
		healthpb.RegisterHealthServer(s, h)
	})
	bare := serveGRPC(t, func(*grpc.Server) {})
	slow := serveGRPC(t, func(s *grpc.Server) { healthpb.RegisterHealthServer(s, hanging{}) })
	closed := closedPort(t)
	str := func(s string) *string { return &s }
	for name, test := range map[string]struct {
		action corev1.GRPCAction
		want   string
	}{
		"the server":      {corev1.GRPCAction{Port: healthy}, ""},
		"good service":    {corev1.GRPCAction{Port: healthy, Service: str("good")}, ""},
		"bad service":     {corev1.GRPCAction{Port: healthy, Service: str("bad")}, `service unhealthy (responded with "NOT_SERVING")`},
		"unknown service": {corev1.GRPCAction{Port: healthy, Service: str("x")}, "error: health rpc probe failed: rpc error: code = NotFound desc = unknown service"},
		"no health service": {corev1.GRPCAction{Port: bare},
			"error: this server does not implement the grpc health protocol (grpc.health.v1.Health): unknown service grpc.health.v1.Health"},
		"hangs": {corev1.GRPCAction{Port: slow}, "timeout: health rpc did not complete within 1s"},
		"closed": {corev1.GRPCAction{Port: closed},
			fmt.Sprintf(`timeout: failed to connect service "127.0.0.1:%d" within 1s: context deadline exceeded`, closed)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := target(pod(), corev1.ProbeHandler{GRPC: &test.action})
			if strings.HasPrefix(test.want, "timeout") {
				in.Probe.TimeoutSeconds = 1
			}
			check(t, prober.New(prober.Options{}).Probe(t.Context(), in), test.want)
		})
	}
}

func TestHooks(t *testing.T) {
	var mu sync.Mutex
	var seen []string
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		seen = append(seen, fmt.Sprintf("%s %s auth=%q", r.URL.Path, r.UserAgent(), r.Header.Get("Authorization")))
		w.WriteHeader(http.StatusInternalServerError)
	})
	plain, secure := httptest.NewServer(handler), httptest.NewTLSServer(handler)
	defer plain.Close()
	defer secure.Close()
	port := func(s *httptest.Server) intstr.IntOrString {
		return intstr.FromInt32(portOf(t, s.Listener.Addr().String()))
	}
	auth := []corev1.HTTPHeader{{Name: "Authorization", Value: "secret"}}
	var events recorder
	p := prober.New(prober.Options{Recorder: &events})
	pod := pod()
	in := kubelet.ProbeTarget{Pod: pod, Container: &pod.Spec.Containers[0], IPs: []string{"127.0.0.1"}}
	for _, action := range []corev1.HTTPGetAction{
		{Path: "/plain", Port: port(plain), HTTPHeaders: auth},
		{Path: "/secure", Port: port(secure), Scheme: corev1.URISchemeHTTPS, HTTPHeaders: auth},
		{Path: "/fallback", Port: port(plain), Scheme: corev1.URISchemeHTTPS, HTTPHeaders: auth},
	} {
		check(t, p.Hook(t.Context(), in, &action), "")
	}
	want := []string{
		`/plain kube-lifecycle/1.37 auth="secret"`, `/secure kube-lifecycle/1.37 auth="secret"`, `/fallback kube-lifecycle/1.37 auth=""`,
	}
	if strings.Join(seen, "\n") != strings.Join(want, "\n") {
		t.Errorf("got %q, want %q", seen, want)
	}
	told := fmt.Sprintf("Warning LifecycleHTTPFallback web: request to HTTPS lifecycle hook %s got HTTP response, retry with HTTP succeeded", plain.Listener.Addr())
	if len(events.list) != 1 || events.list[0] != told {
		t.Errorf("got events %q, want %q", events.list, told)
	}

	closed := closedPort(t)
	check(t, p.Hook(t.Context(), in, &corev1.HTTPGetAction{Path: "/h", Port: intstr.FromInt32(closed)}),
		fmt.Sprintf(`Get "http://127.0.0.1:%d/h": dial tcp 127.0.0.1:%d: connect: connection refused`, closed, closed))
	in.IPs = nil
	check(t, p.Hook(t.Context(), in, &corev1.HTTPGetAction{Port: intstr.FromInt32(closed)}),
		"failed to find networking container: the pod has no IP address")
}

func TestHookEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	pod := pod()
	in := kubelet.ProbeTarget{Pod: pod, Container: &pod.Spec.Containers[0], IPs: []string{"127.0.0.1"}}
	err := prober.New(prober.Options{}).Hook(ctx, in, &corev1.HTTPGetAction{Port: intstr.FromInt32(silent(t))})
	var failed *url.Error
	if !errors.As(err, &failed) || !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want it canceled", err)
	}
}

func TestManyAtOnce(t *testing.T) {
	var mu sync.Mutex
	conns := map[string]int{}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	server.Config.ConnState = func(c net.Conn, s http.ConnState) {
		mu.Lock()
		defer mu.Unlock()
		conns[s.String()]++
		_ = c
	}
	server.Start()
	p := prober.New(prober.Options{})
	in := target(pod(), corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Port: intstr.FromInt32(portOf(t, server.Listener.Addr().String()))}})
	const workers, each = 20, 20
	errs := make(chan error, workers*each)
	var group sync.WaitGroup
	for range workers {
		group.Go(func() {
			for range each {
				errs <- p.Probe(t.Context(), in)
			}
		})
	}
	group.Wait()
	close(errs)
	for err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
	server.Close() // waits for open connections
	mu.Lock()
	defer mu.Unlock()
	if conns["new"] != workers*each || conns["idle"] != 0 {
		t.Errorf("connections: %v, want %d of them and none kept", conns, workers*each)
	}
}
