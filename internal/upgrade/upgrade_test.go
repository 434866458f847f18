package upgrade_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/keelson-dev/keelson/internal/upgrade"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// echo switches to the protocol "echo" and echoes its input.
func echo(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Upgrade") != "echo" || r.Header.Get("Authorization") != "" {
		w.Header().Set("Retry-After", "7")
		http.Error(w, "no such protocol", http.StatusTeapot)
		return
	}
	conn, err := upgrade.Hijack(w)
	if err != nil {
		return
	}
	defer func() { _ = conn.Close() }()
	// Data that arrives with the response headers must not be lost.
	_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\nhello\n")
	_, _ = io.Copy(conn, conn)
}

func serve(t *testing.T, secure bool, h http.HandlerFunc) (*url.URL, *tls.Config) {
	t.Helper()
	s := httptest.NewUnstartedServer(h)
	if secure {
		s.EnableHTTP2 = true // which upgrades nothing
		s.StartTLS()
	} else {
		s.Start()
	}
	t.Cleanup(s.Close)
	u, err := url.Parse(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	if !secure {
		return u, nil
	}
	return u, s.Client().Transport.(*http.Transport).TLSClientConfig
}

func asking(protocol string) http.Header {
	return http.Header{"Connection": {"keep-alive, upgrade"}, "Upgrade": {protocol}}
}

func TestWanted(t *testing.T) {
	for _, c := range []struct {
		header http.Header
		want   bool
	}{
		{http.Header{}, false}, {asking("x"), true}, {http.Header{"Upgrade": {"x"}}, false}, {http.Header{"Connection": {"Upgrade"}}, false},
		{http.Header{"Connection": {"close"}, "Upgrade": {"x"}}, false}, {http.Header{"Connection": {"a", "UPGRADE"}, "Upgrade": {"x"}}, true},
	} {
		if got := upgrade.Wanted(&http.Request{Header: c.header}); got != c.want {
			t.Errorf("%v: %v", c.header, got)
		}
	}
}

func TestAsk(t *testing.T) {
	for _, secure := range []bool{false, true} {
		u, config := serve(t, secure, echo)
		_, conn, err := upgrade.Backend{URL: u, TLS: config}.Ask(t.Context(), http.MethodGet, asking("echo"))
		if err != nil {
			t.Fatal(err)
		}
		reader := bufio.NewReader(conn)
		if _, err := io.WriteString(conn, "there\n"); err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{"hello\n", "there\n"} {
			if got, err := reader.ReadString('\n'); err != nil || got != want {
				t.Errorf("%q, %v; want %q", got, err, want)
			}
		}
		_ = conn.Close()
		_, _, err = upgrade.Backend{URL: u, TLS: config}.Ask(t.Context(), http.MethodGet, asking("other"))
		var refused *upgrade.Refused
		if !errors.As(err, &refused) || refused.Code != http.StatusTeapot || err.Error() != "no such protocol" {
			t.Errorf("refused: %v", err)
		}
	}
	u, _ := serve(t, true, echo)
	if _, _, err := (upgrade.Backend{URL: u}).Ask(t.Context(), http.MethodGet, asking("echo")); err == nil || !strings.Contains(err.Error(), "x509") {
		t.Errorf("a certificate of nobody: %v", err)
	}
}

// TestAskEnds: waiting for a backend that does not answer ends with the context.
func TestAskEnds(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		defer func() { _ = conn.Close() }()
		if _, err := http.ReadRequest(bufio.NewReader(conn)); err != nil {
			t.Error(err)
		}
		cancel()
		_, _ = io.Copy(io.Discard, conn)
	}()
	u := &url.URL{Scheme: "http", Host: l.Addr().String()}
	if _, _, err := (upgrade.Backend{URL: u}).Ask(ctx, http.MethodGet, asking("echo")); err == nil {
		t.Error("it answered")
	}
}

func TestProxy(t *testing.T) {
	backend, config := serve(t, true, echo)
	ended := make(chan error, 10)
	proxy, _ := serve(t, false, func(w http.ResponseWriter, r *http.Request) {
		ended <- upgrade.Backend{URL: backend, TLS: config}.Proxy(w, r)
	})
	// The client's request is written by hand here.
	conn, err := net.Dial("tcp", proxy.Host)
	if err != nil {
		t.Fatal(err)
	}
	_, err = fmt.Fprint(conn, "GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: echo\r\nAuthorization: Bearer secret\r\n\r\nsent at once\n")
	if err != nil {
		t.Fatal(err)
	}
	reader := bufio.NewReader(conn)
	answer, err := http.ReadResponse(reader, nil)
	if err != nil || answer.StatusCode != http.StatusSwitchingProtocols || answer.Header.Get("Upgrade") != "echo" {
		t.Fatalf("%+v, %v", answer, err)
	}
	_ = answer.Body.Close()
	for _, want := range []string{"hello\n", "sent at once\n"} {
		if got, err := reader.ReadString('\n'); err != nil || got != want {
			t.Errorf("%q, %v; want %q", got, err, want)
		}
	}
	_ = conn.Close()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	refused, err := http.Get(proxy.String())
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(refused.Body)
	if err != nil || refused.StatusCode != http.StatusTeapot || string(text) != "no such protocol\n" || refused.Header.Get("Retry-After") != "7" {
		t.Errorf("%s %q %v", refused.Status, text, err)
	}
	_ = refused.Body.Close()
	http.DefaultClient.CloseIdleConnections()
}

// TestProxyNeedsConnection: over HTTP/2, or in process, there is no connection to hijack.
func TestProxyNeedsConnection(t *testing.T) {
	u, config := serve(t, true, echo)
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.Header = asking("echo")
	if err := (upgrade.Backend{URL: u, TLS: config}).Proxy(httptest.NewRecorder(), r); !errors.Is(err, http.ErrNotSupported) {
		t.Error(err)
	}
}
