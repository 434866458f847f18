package healthcheck_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"reflect"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/events"
	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/informer/memory"
	"github.com/keelson-dev/keelson/internal/inmemory"
	"github.com/keelson-dev/keelson/proxy"
	"github.com/keelson-dev/keelson/proxy/healthcheck"
)

// host has ports without sockets.
type host struct {
	mu    sync.Mutex
	ports map[string]*listener // by network and address
	taken map[string]bool      // by others
}

func newHost() *host { return &host{ports: map[string]*listener{}, taken: map[string]bool{}} }

func (h *host) listen(_ context.Context, network, address string) (net.Listener, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	at := network + " " + address
	if h.taken[at] || h.ports[at] != nil {
		return nil, errors.New("in use")
	}
	l := &listener{calls: make(chan net.Conn), closed: make(chan struct{})}
	l.forget = sync.OnceFunc(func() {
		close(l.closed)
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.ports, at)
	})
	h.ports[at] = l
	return l, nil
}

func (h *host) open() map[string]bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	all := map[string]bool{}
	for at := range h.ports {
		all[at] = true
	}
	return all
}

func (h *host) take(at string, is bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.taken[at] = is
}

// dial connects, and waits until the connection is accepted.
func (h *host) dial(ctx context.Context, at string) (net.Conn, error) {
	h.mu.Lock()
	l := h.ports[at]
	h.mu.Unlock()
	if l == nil {
		return nil, errors.New("refused")
	}
	mine, theirs := inmemory.Pipe()
	select {
	case l.calls <- theirs:
		return mine, nil
	case <-l.closed:
		return nil, errors.New("refused")
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// get asks at an address; the answer is status, weight and body.
func (h *host) get(t *testing.T, at string) (int, string, string) {
	t.Helper()
	client := http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext:       func(ctx context.Context, _, _ string) (net.Conn, error) { return h.dial(ctx, at) },
	}}
	got, err := client.Get("http://node/healthz")
	if err != nil {
		return 0, "", ""
	}
	defer func() { _ = got.Body.Close() }()
	body, err := io.ReadAll(got.Body)
	if err != nil {
		t.Error(err)
	}
	return got.StatusCode, got.Header.Get("X-Load-Balancing-Endpoint-Weight"), string(body)
}

type listener struct {
	calls  chan net.Conn
	closed chan struct{}
	forget func()
}

func (l *listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.calls:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *listener) Close() error   { l.forget(); return nil }
func (l *listener) Addr() net.Addr { return &net.TCPAddr{} }

func name(s string) proxy.Service { return proxy.Service{Namespace: "default", Name: s} }

func four(port uint16, endpoints int) []proxy.Check {
	return []proxy.Check{{Port: port, Endpoints: endpoints}}
}

// start runs a Server on the host until the returned function is called.
func start(t *testing.T, h *host, o healthcheck.Options) (*healthcheck.Server, func()) {
	t.Helper()
	o.Listen = h.listen
	s := healthcheck.New(proxy.NewHealth(0), o)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	synctest.Wait()
	return s, func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if left := h.open(); len(left) > 0 {
			t.Errorf("left open: %v", left)
		}
	}
}

func TestServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost()
		s, stop := start(t, h, healthcheck.Options{})
		defer stop()
		check := func(checks map[proxy.Service][]proxy.Check) { s.Check(checks); synctest.Wait() }
		check(map[proxy.Service][]proxy.Check{
			name("a"): {{Port: 32000, Endpoints: 2}, {Port: 32000, Is6: true}},
			name("b"): four(32001, 1),
		})
		if got := h.open(); !reflect.DeepEqual(got, map[string]bool{"tcp4 0.0.0.0:32000": true, "tcp6 [::]:32000": true, "tcp4 0.0.0.0:32001": true}) {
			t.Fatal(got)
		}
		code, weight, body := h.get(t, "tcp4 0.0.0.0:32000")
		want := "{\n\t\"service\": {\n\t\t\"namespace\": \"default\",\n\t\t\"name\": \"a\"\n\t},\n\t\"localEndpoints\": 2,\n\t\"serviceProxyHealthy\": true\n}"
		if code != http.StatusOK || weight != "2" || body != want {
			t.Errorf("%d, %q, %s", code, weight, body)
		}
		if code, weight, _ := h.get(t, "tcp6 [::]:32000"); code != http.StatusServiceUnavailable || weight != "0" {
			t.Errorf("without endpoints: %d, %q", code, weight)
		}
		check(map[proxy.Service][]proxy.Check{name("a"): four(32000, 5)})
		if code, weight, _ := h.get(t, "tcp4 0.0.0.0:32000"); code != http.StatusOK || weight != "5" {
			t.Errorf("after a change: %d, %q", code, weight)
		}
		// Ports change hands.
		check(map[proxy.Service][]proxy.Check{name("a"): four(32001, 3), name("b"): four(32000, 4)})
		if _, weight, body := h.get(t, "tcp4 0.0.0.0:32001"); weight != "3" || !strings.Contains(body, `"name": "a"`) {
			t.Errorf("after the exchange: %q %s", weight, body)
		}
		check(map[proxy.Service][]proxy.Check{name("a"): nil})
		if got := h.open(); !reflect.DeepEqual(got, map[string]bool{"tcp4 0.0.0.0:32000": true}) {
			t.Errorf("left: %v", got)
		}
	})
}

func TestPortsInUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost()
		h.take("tcp4 0.0.0.0:32000", true)
		var told []events.Event
		s, stop := start(t, h, healthcheck.Options{Node: "node-1", Recorder: events.Func(func(e events.Event) { told = append(told, e) })})
		s.Check(map[proxy.Service][]proxy.Check{name("a"): four(32000, 1), name("b"): four(32001, 1)})
		synctest.Wait()
		want := []events.Event{{
			Regarding: corev1.ObjectReference{APIVersion: "v1", Kind: "Service", Namespace: "default", Name: "a"}, Type: "Warning",
			Reason: "FailedToStartServiceHealthcheck", Action: "Listen", Message: `node node-1 failed to start healthcheck "default/a" on port 32000: in use`,
		}}
		if !reflect.DeepEqual(told, want) {
			t.Errorf("%+v", told)
		}
		if got := h.open(); !got["tcp4 0.0.0.0:32001"] {
			t.Errorf("the other service's: %v", got)
		}
		h.take("tcp4 0.0.0.0:32000", false)
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if got := h.open(); !got["tcp4 0.0.0.0:32000"] {
			t.Errorf("not tried again: %v", got)
		}
		time.Sleep(time.Hour)
		stop()
		if len(told) != 1 {
			t.Errorf("%d events", len(told))
		}
	})
}

func TestAddresses(t *testing.T) {
	for ranges, want := range map[string]string{"127.0.0.0/8": "tcp4 127.0.0.1:32000", "203.0.113.0/24": "tcp4 0.0.0.0:32000"} {
		synctest.Test(t, func(t *testing.T) {
			h := newHost()
			s, stop := start(t, h, healthcheck.Options{Addresses: []netip.Prefix{netip.MustParsePrefix(ranges)}})
			defer stop()
			s.Check(map[proxy.Service][]proxy.Check{name("a"): four(32000, 1)})
			synctest.Wait()
			if got := h.open(); !reflect.DeepEqual(got, map[string]bool{want: true}) {
				t.Errorf("%s: %v", ranges, got)
			}
		})
	}
}

func TestConnectionsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost()
		s, stop := start(t, h, healthcheck.Options{Connections: 2})
		defer stop()
		s.Check(map[proxy.Service][]proxy.Check{name("a"): four(32000, 1)})
		synctest.Wait()
		var idle []net.Conn
		for range 2 {
			c, err := h.dial(t.Context(), "tcp4 0.0.0.0:32000")
			if err != nil {
				t.Fatal(err)
			}
			idle = append(idle, c)
		}
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), 9*time.Second)
		defer cancel()
		if _, err := h.dial(ctx, "tcp4 0.0.0.0:32000"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a third connection: %v", err)
		}
		// Who says nothing loses its place.
		if code, _, _ := h.get(t, "tcp4 0.0.0.0:32000"); code != http.StatusOK {
			t.Errorf("%d after silence", code)
		}
		for _, c := range idle {
			_ = c.Close()
		}
	})
}

func TestUnhealthyProxy(t *testing.T) {
	w := httptest.NewRecorder()
	healthcheck.WriteCheck(w, name("a"), 1, false)
	if w.Code != http.StatusServiceUnavailable || w.Header().Get("X-Load-Balancing-Endpoint-Weight") != "1" ||
		!strings.Contains(w.Body.String(), `"serviceProxyHealthy": false`) || w.Header().Get("X-Content-Type-Options") != "nosniff" {
		t.Errorf("%d %v %s", w.Code, w.Header(), w.Body)
	}
}

func TestHandler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		now := time.Now().Format(time.RFC3339Nano)
		eligible := false
		h := healthcheck.Handler(proxy.NewHealth(0), func() bool { return eligible })
		ask := func(path string) (int, string) {
			w := httptest.NewRecorder()
			h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
			if w.Header().Get("Content-Type") != "application/json" || w.Header().Get("X-Content-Type-Options") != "nosniff" {
				t.Errorf("%s: %v", path, w.Header())
			}
			return w.Code, w.Body.String()
		}
		if code, body := ask("/healthz"); code != http.StatusServiceUnavailable ||
			body != `{"lastUpdated":"0001-01-01T00:00:00Z","currentTime":"`+now+`","nodeEligible":false,"healthy":true}` {
			t.Errorf("%d %s", code, body)
		}
		if code, body := ask("/livez"); code != http.StatusOK || body != `{"lastUpdated":"`+now+`","currentTime":"`+now+`","healthy":true}` {
			t.Errorf("%d %s", code, body)
		}
		eligible = true
		if code, body := ask("/healthz"); code != http.StatusOK || !strings.Contains(body, `"nodeEligible":true`) {
			t.Errorf("%d %s", code, body)
		}
	})
}

func TestEligible(t *testing.T) {
	node := func(change func(*corev1.Node)) *corev1.Node {
		n := &corev1.Node{}
		change(n)
		return n
	}
	for name, row := range map[string]struct {
		node *corev1.Node
		want bool
	}{
		"no node":   {nil, false},
		"plain":     {node(func(*corev1.Node) {}), true},
		"deleted":   {node(func(n *corev1.Node) { n.DeletionTimestamp = &metav1.Time{} }), false},
		"cordoned":  {node(func(n *corev1.Node) { n.Spec.Taints = []corev1.Taint{{Key: "node.kubernetes.io/unschedulable"}} }), true},
		"scaled in": {node(func(n *corev1.Node) { n.Spec.Taints = []corev1.Taint{{Key: "ToBeDeletedByClusterAutoscaler"}} }), false},
	} {
		if got := healthcheck.Eligible(row.node); got != row.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// stuck is a Writer that never succeeds.
type stuck struct{ proxy.Writer }

func (stuck) Sync(context.Context, proxy.Tables) error { return errors.New("stuck") }

func TestHandlerOfLateProxy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		health := proxy.NewHealth(time.Minute)
		in := proxy.Sources{
			Services:       informer.New(memory.New[*corev1.Service](), informer.Options{}),
			EndpointSlices: informer.New(memory.New[*discoveryv1.EndpointSlice](), informer.Options{}),
		}
		ctx, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		defer all.Wait()
		defer cancel()
		for _, run := range []func(context.Context) error{in.Services.Run, in.EndpointSlices.Run, proxy.New(in, stuck{}, proxy.Options{Health: health}).Run} {
			all.Go(func() { _ = run(ctx) })
		}
		synctest.Wait()
		began := time.Now().Format(time.RFC3339Nano)
		time.Sleep(time.Minute)
		w := httptest.NewRecorder()
		healthcheck.Handler(health, func() bool { return true }).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/healthz", nil))
		of := `{"lastUpdated":"` + began + `","healthy":false}`
		want := `{"lastUpdated":"` + began + `","currentTime":"` + time.Now().Format(time.RFC3339Nano) + `","nodeEligible":true,"healthy":false,` +
			`"status":{"IPv4":` + of + `,"IPv6":` + of + `}}`
		if w.Code != http.StatusServiceUnavailable || w.Body.String() != want {
			t.Errorf("%d %s\nwant %s", w.Code, w.Body, want)
		}
	})
}
