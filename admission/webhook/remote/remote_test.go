package remote_test

import (
	"context"
	"crypto/tls"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	registrationv1 "k8s.io/api/admissionregistration/v1"

	"github.com/keelson-dev/keelson/admission/webhook"
	"github.com/keelson-dev/keelson/admission/webhook/remote"
	"github.com/keelson-dev/keelson/pki"
)

// server is a webhook on loopback, whose certificate is valid for the service hook in ns and for 127.0.0.1.
type server struct {
	*httptest.Server
	roots []byte

	mu     sync.Mutex
	conns  int
	seen   []string    // protocol, host and path of each request
	from   string      // the client's address in the last request
	offers []string    // the protocols that each connection's client offered
	closed chan string // the clients' addresses of connections that were closed
}

func (s *server) connections() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.conns
}

func (s *server) last(of *[]string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return (*of)[len(*of)-1]
}

func serve(t *testing.T, handler http.HandlerFunc) *server {
	t.Helper()
	authority, err := pki.New("test")
	if err != nil {
		t.Fatal(err)
	}
	pair, err := authority.Issue(pki.Subject{Name: "hook", Hosts: []string{"hook.ns.svc", "127.0.0.1"}}, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := pair.TLS()
	if err != nil {
		t.Fatal(err)
	}
	s := &server{roots: authority.PEM(), closed: make(chan string, 1000)}
	s.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		s.seen, s.from = append(s.seen, r.Proto+" "+r.Host+" "+r.URL.Path), r.RemoteAddr
		s.mu.Unlock()
		handler(w, r)
	}))
	s.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	s.Config.ConnState = func(c net.Conn, state http.ConnState) {
		s.mu.Lock()
		defer s.mu.Unlock()
		switch state {
		case http.StateNew:
			s.conns++
		case http.StateClosed:
			s.closed <- c.RemoteAddr().String()
		}
	}
	s.EnableHTTP2 = true
	s.TLS = &tls.Config{Certificates: []tls.Certificate{certificate}, GetConfigForClient: func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.offers = append(s.offers, strings.Join(hello.SupportedProtos, " "))
		return nil, nil
	}}
	s.StartTLS()
	t.Cleanup(s.Close)
	return s
}

// here resolves every service to the server.
func (s *server) here() remote.Resolver {
	return remote.ResolverFunc(func(_ context.Context, namespace, name string, port int32) (string, error) {
		if port != 443 && port != 8443 || name == "gone" {
			return "", fmt.Errorf("no port %d of %s in %s", port, name, namespace)
		}
		return s.Listener.Addr().String(), nil
	})
}

func (s *server) service(name string) *registrationv1.WebhookClientConfig {
	return &registrationv1.WebhookClientConfig{CABundle: s.roots, Service: &registrationv1.ServiceReference{Namespace: "ns", Name: name}}
}

func (s *server) at(path string) *registrationv1.WebhookClientConfig {
	return &registrationv1.WebhookClientConfig{CABundle: s.roots, URL: new(s.URL + path)}
}

func echo(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(w, r.Body) }

func newCaller(t *testing.T, o remote.Options) *remote.Caller {
	t.Helper()
	c := remote.New(o)
	t.Cleanup(c.Close)
	return c
}

func TestCall(t *testing.T) {
	s := serve(t, echo)
	c := newCaller(t, remote.Options{Resolver: s.here()})
	port := s.service("hook")
	port.Service.Port, port.Service.Path = new(int32(8443)), new("/a/")
	for _, test := range []struct {
		to   *registrationv1.WebhookClientConfig
		want string
	}{
		{s.service("hook"), "HTTP/1.1 hook.ns.svc:443 /"},
		{port, "HTTP/1.1 hook.ns.svc:8443 /a"},
		{s.at("/b"), "HTTP/2.0 " + s.Listener.Addr().String() + " /b"},
	} {
		for range 10 {
			body, err := c.Call(t.Context(), test.to, []byte("review"))
			if string(body) != "review" || err != nil || s.last(&s.seen) != test.want {
				t.Errorf("%v: %q, %v; the webhook saw %q", test.to, body, err, s.last(&s.seen))
			}
		}
	}
	n := s.connections()
	if n >= 10 {
		t.Errorf("%d connections for 30 calls", n)
	}
	c.Close()
	if _, err := c.Call(t.Context(), s.service("hook"), []byte("review")); err != nil || s.connections() <= n {
		t.Errorf("after Close: %v, %d connections", err, s.connections())
	}
}

// TestErrors: what keeps a webhook from being called, in upstream's words.
func TestErrors(t *testing.T) {
	s := serve(t, echo)
	closed := serve(t, echo)
	closed.Close()
	other := serve(t, echo)
	with := func(to *registrationv1.WebhookClientConfig, roots string) *registrationv1.WebhookClientConfig {
		to.CABundle = []byte(roots)
		return to
	}
	block := func(kind, bytes string) string {
		return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: []byte(bytes)}))
	}
	c := newCaller(t, remote.Options{Resolver: s.here()})
	const roots = "could not get REST client: unable to load root certificates: "
	for name, test := range map[string]struct {
		to     *registrationv1.WebhookClientConfig
		want   string // the beginning
		client bool
	}{
		"nobody listens":    {closed.at("/x"), fmt.Sprintf(`Post "%s/x?timeout=30s": dial tcp %s: connect: connection refused`, closed.URL, closed.Listener.Addr()), false},
		"another authority": {with(s.service("hook"), string(other.roots)), `Post "https://hook.ns.svc:443/?timeout=30s": tls: failed to verify certificate: x509: certificate signed by unknown authority`, false},
		"no authority":      {with(s.service("hook"), ""), `Post "https://hook.ns.svc:443/?timeout=30s": tls: failed to verify certificate: x509: certificate signed by unknown authority`, false},
		"another name":      {s.service("other"), `Post "https://other.ns.svc:443/?timeout=30s": tls: failed to verify certificate: x509: certificate is valid for hook.ns.svc, not other.ns.svc`, false},
		"not resolved":      {s.service("gone"), `Post "https://gone.ns.svc:443/?timeout=30s": no port 443 of gone in ns`, false},
		"garbage":           {with(s.service("hook"), "garbage"), roots + "unable to parse bytes as PEM block", true},
		"a key":             {with(s.service("hook"), block("KEY", "x")), roots + "no valid certificate authority data seen", true},
		"no certificate":    {with(s.service("hook"), block("KEY", "x")+block("CERTIFICATE", "x")), roots + "failed to parse certificate: x509: malformed certificate", true},
		"a key and garbage": {with(s.service("hook"), block("KEY", "x")+"garbage"), roots + "unable to parse bytes as PEM block", true},
		"with headers":      {with(s.service("hook"), string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Headers: map[string]string{"a": "b"}, Bytes: []byte("x")}))), roots + "no valid certificate authority data seen", true},
		"nothing":           {&registrationv1.WebhookClientConfig{}, "could not get REST client: webhook configuration must have either service or URL", true},
	} {
		_, err := c.Call(t.Context(), test.to, nil)
		if err == nil || !strings.HasPrefix(err.Error(), test.want) || errors.Is(err, webhook.ErrClient) != test.client {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestHostile: a webhook's answer is limited in size and time, and it cannot send the server elsewhere.
func TestHostile(t *testing.T) {
	stop := make(chan struct{})
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/large":
			for range 100 {
				if _, err := w.Write(make([]byte, 1000)); err != nil {
					return
				}
			}
		case "/endless":
			for r.Context().Err() == nil {
				_, _ = w.Write(make([]byte, 1<<20))
			}
		case "/slow":
			w.WriteHeader(http.StatusOK)
			w.(http.Flusher).Flush()
			select {
			case <-r.Context().Done():
			case <-stop:
			}
		case "/elsewhere":
			http.Redirect(w, r, "/there", http.StatusTemporaryRedirect)
		case "/cut":
			panic(http.ErrAbortHandler)
		}
	})
	defer close(stop)
	c := newCaller(t, remote.Options{MaxAnswer: 50000})
	for path, want := range map[string]string{
		"/large":     "the response is larger than 50000 bytes",
		"/endless":   "the response is larger than 50000 bytes",
		"/elsewhere": "the server responded with the status code 307 but did not return more information",
	} {
		if _, err := c.Call(t.Context(), s.at(path), nil); err == nil || err.Error() != want {
			t.Errorf("%s: %v", path, err)
		}
	}
	if _, err := c.Call(t.Context(), s.at("/cut"), nil); err == nil {
		t.Error("the connection was cut")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := c.Call(ctx, s.at("/slow"), nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
	if _, err := newCaller(t, remote.Options{}).Call(t.Context(), s.at("/endless"), nil); err == nil || err.Error() != "the response is larger than 8388608 bytes" {
		t.Error(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, seen := range s.seen {
		if strings.HasSuffix(seen, "/there") {
			t.Error("the redirect was followed")
		}
	}
}

// TestDial: connections are made by Options.Dial, to the service's name unless something resolves it.
func TestDial(t *testing.T) {
	s := serve(t, echo)
	var dialed []string
	c := newCaller(t, remote.Options{Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
		dialed = append(dialed, network+" "+address)
		return new(net.Dialer).DialContext(ctx, network, s.Listener.Addr().String())
	}})
	if body, err := c.Call(t.Context(), s.service("hook"), []byte("x")); string(body) != "x" || err != nil {
		t.Errorf("%q, %v", body, err)
	}
	if len(dialed) != 1 || dialed[0] != "tcp hook.ns.svc:443" {
		t.Errorf("dialed %q", dialed)
	}
}

// TestProtocol: only webhooks on this machine are offered HTTP/2.
func TestProtocol(t *testing.T) {
	s := serve(t, echo)
	c := newCaller(t, remote.Options{Resolver: s.here(), Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, s.Listener.Addr().String())
	}})
	for host, want := range map[string]bool{"localhost": true, "LOCALHOST": true, "127.0.0.1": true, "[::1]": true, "hook.ns.svc": false, "192.0.2.1": false} {
		_, _ = c.Call(t.Context(), &registrationv1.WebhookClientConfig{CABundle: s.roots, URL: new("https://" + host + "/x")}, nil) // not all names are in the certificate
		if offered := s.last(&s.offers); strings.Contains(offered, "h2") != want {
			t.Errorf("%s: offered %q", host, offered)
		}
	}
	if _, err := c.Call(t.Context(), s.service("hook"), []byte("x")); err != nil || strings.Contains(s.last(&s.offers), "h2") {
		t.Errorf("a service: offered %q, %v", s.last(&s.offers), err)
	}
}

// TestMany: transports of webhooks that are no longer called are given up.
func TestMany(t *testing.T) {
	s := serve(t, echo)
	c := newCaller(t, remote.Options{Resolver: s.here()})
	call := func(to *registrationv1.WebhookClientConfig) (from string) {
		t.Helper()
		if _, err := c.Call(t.Context(), to, []byte("x")); err != nil {
			t.Fatal(err)
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.from
	}
	call(s.service("hook"))
	unused := call(s.at("/"))
	for i := range 199 {
		select {
		case closed := <-s.closed:
			if closed == unused { // others may be replaced at any time
				t.Fatalf("the connection was closed when there were %d transports", 2+i)
			}
		default:
		}
		other := s.service("gone") // needs a transport before it turns out to be gone
		other.CABundle = append(slices.Clone(s.roots), fmt.Sprint(i)...)
		if _, err := c.Call(t.Context(), other, nil); err == nil {
			t.Fatal("called a service that is gone")
		}
		call(s.service("hook")) // stays in use
	}
	for <-s.closed != unused { // waits for it
	}
	call(s.at("/")) // works again
}

// wrapped notes the requests that it passes on.
type wrapped struct {
	next http.RoundTripper
	mu   sync.Mutex
	to   []string
}

func (w *wrapped) RoundTrip(r *http.Request) (*http.Response, error) {
	w.mu.Lock()
	w.to = append(w.to, r.URL.String())
	w.mu.Unlock()
	r = r.Clone(r.Context())
	r.Header.Set("X-Trace", "yes")
	return w.next.RoundTrip(r)
}

// TestWrap: requests to services and URLs go through what wraps the transport, by the names that they were asked for.
func TestWrap(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.Header.Get("X-Trace")) })
	w, times := &wrapped{}, 0
	c := newCaller(t, remote.Options{Resolver: s.here(), Wrap: func(next http.RoundTripper) http.RoundTripper {
		times++
		w.next = next
		return w
	}})
	for _, to := range []*registrationv1.WebhookClientConfig{s.service("hook"), s.at("/a"), s.at("/b")} {
		if got, err := c.Call(t.Context(), to, []byte("{}")); err != nil || string(got) != "yes" {
			t.Errorf("%s, %v", got, err)
		}
	}
	if times != 1 || len(w.to) != 3 || !strings.HasPrefix(w.to[0], "https://hook.ns.svc") || !strings.HasPrefix(w.to[1], s.URL+"/a") {
		t.Errorf("wrapped %d times, %v", times, w.to)
	}
}
