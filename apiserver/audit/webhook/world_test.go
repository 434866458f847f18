package webhook_test

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"k8s.io/apimachinery/pkg/types"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/client-go/rest"

	"github.com/keelson-dev/keelson/apiserver/audit/webhook"
	"github.com/keelson-dev/keelson/pki"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// collector is a server over TLS, on connections in memory, so that its time is virtual. It wants clients to have certificates.
type collector struct {
	t        *testing.T
	config   *rest.Config // of its client
	down     atomic.Bool  // it cannot be reached
	accepted chan net.Conn
	closed   chan struct{}
	server   *httptest.Server
	answer   func(w http.ResponseWriter, r *http.Request) // nil is 200

	mu    sync.Mutex
	posts []post
}

// post is what the collector was sent.
type post struct {
	after  time.Duration // since the start
	url    string
	header http.Header
	body   string
	ids    []string // of the events
}

// collect starts a server.
func collect(t *testing.T, answer func(w http.ResponseWriter, r *http.Request)) *collector {
	t.Helper()
	authority, err := pki.New("test")
	if err != nil {
		t.Fatal(err)
	}
	issue := func(s pki.Subject) (pki.Pair, tls.Certificate) {
		pair, err := authority.Issue(s, time.Hour*24)
		if err != nil {
			t.Fatal(err)
		}
		certificate, err := pair.TLS()
		if err != nil {
			t.Fatal(err)
		}
		return pair, certificate
	}
	_, own := issue(pki.Subject{Name: "collector", Hosts: []string{"collector.example"}})
	mine, _ := issue(pki.Subject{Name: "apiserver"})
	c := &collector{t: t, accepted: make(chan net.Conn), closed: make(chan struct{}), answer: answer}
	began := time.Now()
	c.server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { c.serve(w, r, time.Since(began)) }))
	if err := c.server.Listener.Close(); err != nil {
		t.Fatal(err)
	}
	c.server.Listener = c
	c.server.Config.ErrorLog = log.New(io.Discard, "", 0)
	c.server.TLS = &tls.Config{Certificates: []tls.Certificate{own}, ClientCAs: authority.Pool(), ClientAuth: tls.RequireAndVerifyClientCert, MinVersion: tls.VersionTLS12}
	c.server.StartTLS()
	c.config = &rest.Config{
		Host: "https://collector.example/events", BearerToken: "secret", Dial: c.dial,
		TLSClientConfig: rest.TLSClientConfig{CAData: authority.PEM(), CertData: mine.Certificate, KeyData: mine.Key},
	}
	return c
}

func (c *collector) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	if c.down.Load() {
		return nil, &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}
	}
	client, server := net.Pipe()
	select {
	case c.accepted <- server:
		return client, nil
	case <-c.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Accept implements net.Listener.
func (c *collector) Accept() (net.Conn, error) {
	select {
	case conn := <-c.accepted:
		return conn, nil
	case <-c.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (c *collector) Close() error {
	select {
	case <-c.closed:
	default:
		close(c.closed)
	}
	return nil
}

// Addr implements net.Listener.
func (c *collector) Addr() net.Addr { return &net.UnixAddr{Name: "memory"} }

func (c *collector) serve(w http.ResponseWriter, r *http.Request, after time.Duration) {
	body, err := io.ReadAll(r.Body)
	var list auditv1.EventList
	if err = errors.Join(err, json.Unmarshal(body, &list)); err != nil || list.Kind != "EventList" || list.APIVersion != "audit.k8s.io/v1" {
		c.t.Errorf("%v: %.200s", err, body)
	}
	p := post{after: after, url: r.Method + " https://" + r.Host + r.URL.String(), header: r.Header, body: string(body)}
	for i := range list.Items {
		p.ids = append(p.ids, string(list.Items[i].AuditID))
	}
	c.mu.Lock()
	c.posts = append(c.posts, p)
	answer := c.answer
	c.mu.Unlock()
	if answer != nil {
		answer(w, r)
	}
}

// reset has it forget what it was sent, and answer as it should.
func (c *collector) reset() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.posts, c.answer = nil, nil
}

// hang never answers, not even a client that has just given up.
func hang(_ http.ResponseWriter, r *http.Request) {
	<-r.Context().Done()
	panic(http.ErrAbortHandler)
}

// got returns what it was sent.
func (c *collector) got() []post {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]post(nil), c.posts...)
}

// sizes are the numbers of events in posts.
func sizes(posts []post) []int {
	n := []int{}
	for _, p := range posts {
		n = append(n, len(p.ids))
	}
	return n
}

// bubble runs a test in virtual time with a collector and a Sink. end has Run end, and returns how long that takes.
func bubble(t *testing.T, o webhook.Options, answer func(w http.ResponseWriter, r *http.Request), test func(t *testing.T, c *collector, s *webhook.Sink, end func() time.Duration)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := collect(t, answer)
		s, err := webhook.New(c.config, o)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ran := make(chan error, 1)
		go func() { ran <- s.Run(ctx) }()
		end := sync.OnceValue(func() time.Duration {
			began := time.Now()
			cancel()
			if err := <-ran; err != nil {
				t.Error(err)
			}
			return time.Since(began)
		})
		defer c.server.Close()
		defer c.server.CloseClientConnections()
		defer end()
		test(t, c, s, end)
	})
}

// event is one at level Metadata.
func event(id string) *auditv1.Event {
	e := &auditv1.Event{Level: auditv1.LevelMetadata, AuditID: types.UID(id), Stage: auditv1.StageResponseComplete, RequestURI: "/api", Verb: "get"}
	e.APIVersion, e.Kind = "audit.k8s.io/v1", "Event"
	return e
}

// write writes n events and fails if one is not taken.
func write(t *testing.T, s *webhook.Sink, n int) {
	t.Helper()
	for i := range n {
		if err := s.Write(event(fmt.Sprint("e", i))); err != nil {
			t.Fatalf("event %d: %v", i, err)
		}
	}
}

// lost checks the counts of losses.
func lost(t *testing.T, s *webhook.Sink, want map[string]int64) {
	t.Helper()
	if got := s.Failures(); !maps.Equal(got, want) {
		t.Errorf("lost %v, want %v", got, want)
	}
}

// lines is a log that counts lines.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}
