package serving_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/keelson-dev/keelson/apiserver/serving"
	"github.com/keelson-dev/keelson/pki"
)

type running struct {
	url    string
	client *http.Client
	stop   context.CancelFunc
	done   chan error
}

func start(t *testing.T, h http.Handler, o serving.Options) running {
	t.Helper()
	authority, err := pki.New("kubernetes")
	if err != nil {
		t.Fatal(err)
	}
	pair, err := authority.Issue(pki.Subject{Name: "apiserver", Hosts: []string{"127.0.0.1"}}, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := pair.TLS()
	if err != nil {
		t.Fatal(err)
	}
	l, err := serving.Listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := serving.New(l, cert, h, o)
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: authority.Pool(), MinVersion: tls.VersionTLS12}, ForceAttemptHTTP2: true}
	t.Cleanup(func() { stop(); transport.CloseIdleConnections() })
	return running{"https://" + s.Address().String(), &http.Client{Transport: transport}, stop, done}
}

func (r running) get(t *testing.T, path string) *http.Response {
	t.Helper()
	q, err := http.NewRequestWithContext(t.Context(), http.MethodGet, r.url+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := r.client.Do(q)
	if err != nil {
		t.Fatal(err)
	}
	return resp
}

func TestProtocols(t *testing.T) {
	r := start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, r.Proto)
	}), serving.Options{})
	for _, want := range []string{"HTTP/2.0", "HTTP/1.1"} {
		resp := r.get(t, "/")
		body, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if err != nil || string(body) != want {
			t.Errorf("got %q, %v, want %q", body, err, want)
		}
		transport := r.client.Transport.(*http.Transport).Clone()
		transport.ForceAttemptHTTP2 = false
		transport.TLSClientConfig.NextProtos = []string{"http/1.1"}
		transport.TLSNextProto = map[string]func(string, *tls.Conn) http.RoundTripper{}
		r.client.Transport = transport
		defer transport.CloseIdleConnections()
	}
	r.stop()
	if err := <-r.done; err != nil {
		t.Error(err)
	}
}

// TestShutdown: a request under way gets its answer, a stream ends as Drain says, new connections are refused.
func TestShutdown(t *testing.T) {
	began, finish, drained := make(chan struct{}), make(chan struct{}), make(chan struct{})
	r := start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/watch" {
			_, _ = io.WriteString(w, "begun\n")
			_ = http.NewResponseController(w).Flush()
			<-drained
			_, _ = io.WriteString(w, "ended\n")
			return
		}
		close(began)
		<-finish
		_, _ = io.WriteString(w, "done")
	}), serving.Options{Drain: func() { close(drained) }})
	watch := r.get(t, "/watch")
	defer func() { _ = watch.Body.Close() }()
	lines := bufio.NewReader(watch.Body)
	if line, err := lines.ReadString('\n'); line != "begun\n" {
		t.Fatal(line, err)
	}
	answer := make(chan string, 1)
	go func() {
		resp, err := r.client.Get(r.url + "/slow") //nolint:noctx // ends with the test
		if err != nil {
			answer <- err.Error()
			return
		}
		body, _ := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		answer <- string(body)
	}()
	<-began
	r.stop()
	if line, err := lines.ReadString('\n'); line != "ended\n" {
		t.Error(line, err)
	}
	for { // the listener closes right after the streams were told to end
		c, err := net.DialTimeout("tcp", strings.TrimPrefix(r.url, "https://"), time.Second)
		if err != nil {
			break
		}
		_ = c.Close()
	}
	close(finish)
	if got := <-answer; got != "done" {
		t.Errorf("the slow request got %q", got)
	}
	if err := <-r.done; err != nil {
		t.Error(err)
	}
}

func TestGraceEnds(t *testing.T) {
	began := make(chan struct{})
	r := start(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		close(began)
		<-r.Context().Done()
	}), serving.Options{Grace: 10 * time.Millisecond})
	go func() {
		resp, err := r.client.Get(r.url) //nolint:noctx // ends with the test
		if err == nil {
			_ = resp.Body.Close()
		}
	}()
	<-began
	r.stop()
	if err := <-r.done; !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "cut off") {
		t.Error(err)
	}
}

func TestListen(t *testing.T) {
	l, err := serving.Listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	if _, err := serving.Listen(t.Context(), l.Addr().String()); !errors.Is(err, serving.ErrAddressInUse) || !strings.Contains(err.Error(), l.Addr().String()) {
		t.Error(err)
	}
	for _, address := range []string{"", "localhost", "127.0.0.1:notaport", "256.1.1.1:0"} {
		if l, err := serving.Listen(t.Context(), address); err == nil {
			_ = l.Close()
			t.Errorf("%q is listened at", address)
		}
	}
}

// TestUnreadUpload: a body that nobody reads keeps nobody else on its connection waiting.
func TestUnreadUpload(t *testing.T) {
	release := make(chan struct{})
	r := start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/unread" {
			<-release
			return
		}
		n, err := io.Copy(io.Discard, r.Body)
		_, _ = fmt.Fprint(w, n, err)
	}), serving.Options{})
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	post := func(path string, body io.Reader) (*http.Response, error) {
		q, err := http.NewRequestWithContext(ctx, http.MethodPost, r.url+path, body)
		if err != nil {
			return nil, err
		}
		return r.client.Do(q)
	}
	r.get(t, "/").Body.Close() // there is a connection
	sent, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		_, _ = post("/unread", &signalling{Reader: io.LimitReader(zeros{}, 3<<20), after: 256 << 10, signal: sent})
	}()
	defer func() { close(release); <-done }()
	<-sent
	resp, err := post("/read", io.LimitReader(zeros{}, 2<<20))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	if text, err := io.ReadAll(resp.Body); err != nil || string(text) != "2097152 <nil>" {
		t.Errorf("%q %v", text, err)
	}
}

type zeros struct{}

func (zeros) Read(b []byte) (int, error) { return len(b), nil }

// signalling tells when so much was read of it.
type signalling struct {
	io.Reader
	after  int
	signal chan struct{}
}

func (s *signalling) Read(b []byte) (int, error) {
	n, err := s.Reader.Read(b)
	if s.after > 0 {
		if s.after -= n; s.after <= 0 {
			close(s.signal)
		}
	}
	return n, err
}

// TestLargeHeader: a request line and headers of more than a mebibyte, and a bit, reach no handler.
func TestLargeHeader(t *testing.T) {
	r := start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = fmt.Fprint(w, len(r.Header.Get("X-Large"))+len(r.URL.RawQuery))
	}), serving.Options{})
	old := r.client.Transport.(*http.Transport).Clone()
	old.ForceAttemptHTTP2 = false
	old.TLSClientConfig.NextProtos = []string{"http/1.1"}
	defer old.CloseIdleConnections()
	for name, client := range map[string]*http.Client{"HTTP/1.1": {Transport: old}, "HTTP/2": r.client} {
		for _, c := range []struct {
			header, query int
			served        bool
		}{{100 << 10, 100 << 10, true}, {2 << 20, 0, false}, {0, 2 << 20, false}} {
			q, err := http.NewRequestWithContext(t.Context(), http.MethodGet, r.url+"/?"+strings.Repeat("q", c.query), nil)
			if err != nil {
				t.Fatal(err)
			}
			q.Header.Set("X-Large", strings.Repeat("h", c.header))
			resp, err := client.Do(q)
			served := err == nil && resp.StatusCode == http.StatusOK
			if err == nil {
				_ = resp.Body.Close()
			}
			if served != c.served || err == nil && !served && resp.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
				t.Errorf("%s, a header of %d and a query of %d: served %t, %v", name, c.header, c.query, served, err)
			}
		}
	}
}
