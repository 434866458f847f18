package apiserver_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/keelson-dev/keelson/apiserver"
	"github.com/keelson-dev/keelson/apiserver/serving"
	"github.com/keelson-dev/keelson/authn"
	"github.com/keelson-dev/keelson/authn/token"
	"github.com/keelson-dev/keelson/authz/alwaysallow"
	"github.com/keelson-dev/keelson/flowcontrol"
	"github.com/keelson-dev/keelson/flowcontrol/fairqueuing"
	"github.com/keelson-dev/keelson/pki"
	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/registry/core"
	"github.com/keelson-dev/keelson/storage/memory"
)

const (
	configs   = "/api/v1/namespaces/n/configmaps"
	slowSends = 250
	slowReads = 430
)

// crowd counts what becomes of one user's requests.
type crowd struct {
	user                  string
	began, ended, refused atomic.Int64
	mu                    sync.Mutex
	codes                 map[string]int
}

func (c *crowd) Observe(m apiserver.Moment, o *apiserver.Observation) {
	if o.Access.User == nil || o.Access.User.Name != c.user {
		return
	}
	switch {
	case m == apiserver.Began:
		c.began.Add(1)
	case m == apiserver.Ended && o.Rejected:
		c.refused.Add(1)
	case m == apiserver.Ended:
		c.mu.Lock()
		defer c.mu.Unlock()
		c.codes[fmt.Sprint(o.Method, " ", o.Code)]++
		c.ended.Add(1)
	}
}

// until waits for what comes sooner or later.
func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(2 * time.Minute); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s: not so far", what)
		}
	}
}

// narrow is a listener whose connections hold little of what is not read.
type narrow struct{ net.Listener }

func (n narrow) Accept() (net.Conn, error) {
	c, err := n.Listener.Accept()
	if err == nil {
		err = c.(*net.TCPConn).SetWriteBuffer(16 << 10)
	}
	return c, err
}

// besieged serves config maps of a megabyte in all.
func besieged(t *testing.T, watcher apiserver.Observer, patience apiserver.Patience, stall time.Duration) (url string, roots *tls.Config) {
	t.Helper()
	reg, err := registry.New(memory.New(memory.Options{}), core.Kinds(core.Options{}), registry.Options{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	running := make(chan error, 2)
	go func() { running <- reg.Run(ctx) }()
	if err := reg.WaitSynced(ctx); err != nil {
		t.Fatal(err)
	}
	api := apiserver.New(reg, apiserver.Options{
		Authenticator: token.New(token.Static(map[string]*authn.Identity{
			"mallory": {Name: "mallory", Groups: []string{authn.GroupAuthenticated}}, "bob": {Name: "bob", Groups: []string{authn.GroupAuthenticated}},
			"node": {Name: "system:node:x", Groups: []string{authn.GroupNodes}},
		})),
		Authorizer: alwaysallow.New(), Observer: watcher, Patience: patience,
		FlowControl: fairqueuing.New(flowcontrol.DefaultConfig(), fairqueuing.Options{Period: time.Hour}),
	})
	transport := apiserver.NewTransport(api, nil)
	t.Cleanup(transport.Close)
	for i := range 4 {
		body := fmt.Sprintf(`{"metadata":{"name":"c%d"},"data":{"x":%q}}`, i, strings.Repeat("x", 250_000))
		if code := outcome(t, &http.Client{Transport: transport}, "bob", http.MethodPost, "http://in.process"+configs, body); code != http.StatusCreated {
			t.Fatal(code)
		}
	}
	authority, err := pki.New("kubernetes")
	if err != nil {
		t.Fatal(err)
	}
	pair, err := authority.Issue(pki.Subject{Name: "apiserver", Hosts: []string{"127.0.0.1"}}, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := pair.TLS()
	if err != nil {
		t.Fatal(err)
	}
	l, err := serving.Listen(ctx, "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := serving.New(narrow{l}, certificate, api, serving.Options{Grace: time.Minute, Stall: stall})
	go func() { running <- server.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		for range 2 {
			if err := <-running; err != nil {
				t.Error(err)
			}
		}
	})
	return "https://" + server.Address().String(), &tls.Config{RootCAs: authority.Pool(), MinVersion: tls.VersionTLS12}
}

// clientOf makes a client of a version of HTTP that takes in little of what it does not read.
func clientOf(t *testing.T, roots *tls.Config, version string) *http.Client {
	t.Helper()
	tr := &http.Transport{
		TLSClientConfig: roots.Clone(), ForceAttemptHTTP2: version == "HTTP/2.0",
		HTTP2: &http.HTTP2Config{MaxReceiveBufferPerStream: 64 << 10, MaxReceiveBufferPerConnection: 64 << 20},
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			c, err := (&net.Dialer{}).DialContext(ctx, network, address)
			if err == nil && version == "HTTP/1.1" {
				err = c.(*net.TCPConn).SetReadBuffer(16 << 10)
			}
			return c, err
		},
	}
	if version == "HTTP/1.1" {
		tr.TLSClientConfig.NextProtos = []string{"http/1.1"}
	}
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr}
}

func outcome(t *testing.T, c *http.Client, who, method, url, body string) int {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+who)
	r.Header.Set("Content-Type", "application/json")
	resp, err := c.Do(r)
	if err != nil {
		t.Error(err)
		return 0
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		t.Error(err)
	}
	return resp.StatusCode
}

// lay begins all that a hostile client does, and returns what ends it.
func lay(t *testing.T, c *http.Client, url string, sends, reads int) (end func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	do := func(method string, body func() io.Reader, length int64) error {
		r, err := http.NewRequestWithContext(ctx, method, url+configs, body())
		if err != nil {
			t.Error(err)
			return nil
		}
		r.Header.Set("Authorization", "Bearer mallory")
		r.ContentLength = length
		resp, err := c.Do(r)
		if err != nil {
			return err
		}
		defer resp.Body.Close() // never read
		<-ctx.Done()
		return nil
	}
	// The server gives up a connection whose client, on a busy machine, is slow to begin: nothing of it has begun then.
	again := func(method string, body func() io.Reader, length int64) {
		for do(method, body, length) != nil && ctx.Err() == nil {
			time.Sleep(time.Millisecond)
		}
	}
	for range sends {
		all.Go(func() {
			again(http.MethodPost, func() io.Reader {
				body, more := io.Pipe()
				all.Go(func() { _, _ = io.WriteString(more, "{"); <-ctx.Done(); _ = more.Close() })
				return body
			}, 1000)
		})
	}
	for range reads {
		all.Go(func() { again(http.MethodGet, func() io.Reader { return nil }, 0) })
	}
	return func() { cancel(); all.Wait() }
}

// TestHostileClient: whoever sends bodies that do not end and lists that are not read, as many as there are seats and more,
// gets a share, and the others are served.
func TestHostileClient(t *testing.T) {
	for _, version := range []string{"HTTP/1.1", "HTTP/2.0"} {
		t.Run(version, func(t *testing.T) {
			mallory := &crowd{user: "mallory", codes: map[string]int{}}
			url, roots := besieged(t, mallory, apiserver.Patience{Body: time.Hour, Answer: time.Hour}, time.Hour)
			end := lay(t, clientOf(t, roots, version), url, slowSends, slowReads)
			defer end()
			const served, queued = 28, 300
			until(t, "all requests are there", func() bool {
				return mallory.began.Load()+mallory.refused.Load() >= slowSends+slowReads-queued
			})
			if n := mallory.began.Load() - mallory.ended.Load(); n != served {
				t.Errorf("the hostile client has %d requests in flight, with %d refused", n, mallory.refused.Load())
			}
			good := clientOf(t, roots, version)
			for i := range 10 {
				for _, who := range []string{"node", "bob"} {
					for _, c := range []struct {
						method, path, body string
						code               int
					}{
						{http.MethodPost, configs, fmt.Sprintf(`{"metadata":{"name":"%s-%d"}}`, who, i), 201},
						{http.MethodGet, fmt.Sprintf("%s/%s-%d", configs, who, i), "", 200},
						{http.MethodPut, "/apis/coordination.k8s.io/v1/namespaces/n/leases/l", "{}", 404},
					} {
						if code := outcome(t, good, who, c.method, url+c.path, c.body); code != c.code {
							t.Errorf("%s of %s by %s: %d, want %d", c.method, c.path, who, code, c.code)
						}
					}
				}
			}
		})
	}
}

// TestPatience: what slow clients hold comes back when their time is over, long before that of the request.
func TestPatience(t *testing.T) {
	for _, version := range []string{"HTTP/1.1", "HTTP/2.0"} {
		t.Run(version, func(t *testing.T) {
			mallory := &crowd{user: "mallory", codes: map[string]int{}}
			url, roots := besieged(t, mallory, apiserver.Patience{Body: time.Second, Answer: time.Second}, time.Hour)
			const sends, reads = 70, 130
			end := lay(t, clientOf(t, roots, version), url, sends, reads)
			defer end()
			until(t, "all requests are over", func() bool {
				began := mallory.began.Load() // of which some began again, as their clients were too slow
				return began == mallory.ended.Load() && began+mallory.refused.Load() >= sends+reads
			})
			began := mallory.began.Load() + mallory.refused.Load()
			mallory.mu.Lock()
			defer mallory.mu.Unlock()
			for outcome, n := range mallory.codes {
				if outcome == "POST 408" && n >= 62 || strings.HasPrefix(outcome, "GET ") {
					continue // half a list is neither good nor bad
				}
				if outcome == "POST 504" && began > sends+reads {
					continue // of those that began again, whose connection broke
				}
				t.Errorf("%s: %d", outcome, n)
			}
		})
	}
}

// TestDeafConnection: requests of an HTTP/2 connection from which nothing is read at all end with the connection, since they
// cannot be told that they are over.
func TestDeafConnection(t *testing.T) {
	const requests = 50
	mallory := &crowd{user: "mallory", codes: map[string]int{}}
	url, roots := besieged(t, mallory, apiserver.Patience{Body: time.Hour, Answer: time.Second}, time.Second)
	tcp, err := net.Dial("tcp", strings.TrimPrefix(url, "https://"))
	if err != nil {
		t.Fatal(err)
	}
	defer tcp.Close()
	if err := tcp.(*net.TCPConn).SetReadBuffer(16 << 10); err != nil {
		t.Fatal(err)
	}
	roots.NextProtos, roots.ServerName = []string{"h2"}, "127.0.0.1"
	connection := tls.Client(tcp, roots)
	if _, err := io.WriteString(connection, http2.ClientPreface); err != nil {
		t.Fatal(err)
	}
	frames := http2.NewFramer(connection, nil)
	begin(t, frames, 1<<30, requests, configs, "mallory")
	until(t, "all requests are there", func() bool { return mallory.began.Load()+mallory.refused.Load() == requests })
	until(t, "all requests are over", func() bool { return mallory.ended.Load()+mallory.refused.Load() == requests })
}

// begin asks so often for a path, and takes window bytes of each answer.
func begin(t *testing.T, frames *http2.Framer, window uint32, requests int, path, who string) {
	t.Helper()
	block := &bytes.Buffer{}
	headers := hpack.NewEncoder(block)
	err := errors.Join(frames.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: window}), frames.WriteWindowUpdate(0, 1<<30))
	for i := range uint32(requests) {
		block.Reset()
		for _, h := range [][2]string{
			{":method", "GET"}, {":scheme", "https"}, {":authority", "127.0.0.1"}, {":path", path}, {"authorization", "Bearer " + who},
		} {
			err = errors.Join(err, headers.WriteField(hpack.HeaderField{Name: h[0], Value: h[1]}))
		}
		err = errors.Join(err, frames.WriteHeaders(http2.HeadersFrameParam{
			StreamID: 1 + 2*i, BlockFragment: block.Bytes(), EndStream: true, EndHeaders: true,
		}))
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestUnreadEnd: an answer that fits into net/http's buffer, so that the handler is not held up, does not keep the
// connection or the stream for ever either.
func TestUnreadEnd(t *testing.T) {
	t.Parallel()
	o := apiserver.Options{Patience: apiserver.Patience{Answer: time.Second / 2}}
	t.Run("HTTP/1.1", func(t *testing.T) {
		t.Parallel()
		server := httptest.NewUnstartedServer(newServer(t, o))
		server.Listener = narrow{server.Listener}
		closed := make(chan struct{})
		server.Config.ConnState = func(_ net.Conn, s http.ConnState) {
			if s == http.StateClosed {
				close(closed)
			}
		}
		server.StartTLS()
		defer server.Close()
		connection := stuck(t, server, "GET /version HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ann\r\n\r\n")
		more := make(chan struct{})
		go func() {
			defer close(more)
			for range 100_000 {
				if _, err := io.WriteString(connection, "GET /version HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ann\r\n\r\n"); err != nil {
					return
				}
			}
			t.Error("all of it was answered")
		}()
		select {
		case <-closed:
		case <-time.After(2 * patient):
			t.Error("the connection is kept")
			_ = connection.Close()
		}
		<-more
	})
	t.Run("HTTP/2.0", func(t *testing.T) {
		t.Parallel()
		server := listening(t, newServer(t, o), "HTTP/2.0")
		connection, err := tls.Dial("tcp", server.Listener.Addr().String(), &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}})
		if err != nil {
			t.Fatal(err)
		}
		defer connection.Close()
		if _, err := io.WriteString(connection, http2.ClientPreface); err != nil {
			t.Fatal(err)
		}
		frames := http2.NewFramer(connection, connection)
		begin(t, frames, 0, 1, "/version", "ann")
		if err := connection.SetReadDeadline(time.Now().Add(patient)); err != nil {
			t.Fatal(err)
		}
		for {
			frame, err := frames.ReadFrame()
			if err != nil {
				t.Fatalf("the stream is not reset: %v", err)
			}
			if _, ok := frame.(*http2.RSTStreamFrame); ok {
				return
			}
		}
	})
}
