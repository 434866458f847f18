package server_test

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/keelson-dev/keelson/cri"
)

// streamer is a runtime's streaming server: it switches to any protocol, sends the request it got, and echoes input in
// capitals.
func streamer(t *testing.T) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/refuse" {
			http.Error(w, "the token is spent", http.StatusNotFound)
			return
		}
		conn, buffer, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer func() { _ = conn.Close() }()
		_, _ = fmt.Fprintf(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: %s\r\nX-Asked: %s %s %q\r\n\r\n",
			r.Header.Get("Upgrade"), r.Method, r.URL, r.Header.Get("Authorization"))
		for {
			line, err := buffer.ReadString('\n')
			if err != nil {
				return
			}
			_, _ = io.WriteString(conn, strings.ToUpper(line))
			if line == "bye\n" {
				return
			}
		}
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// upgrade requests a stream; after code 101 the connection belongs to the stream.
func (n *node) upgrade(t *testing.T, method, path, protocol string) (*http.Response, net.Conn, *bufio.Reader) {
	t.Helper()
	config := n.tls(t, "admin")
	config.NextProtos = []string{"http/1.1"}
	conn, err := tls.Dial("tcp", n.address, config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	_, err = fmt.Fprintf(conn, "%s %s HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: %s\r\nAuthorization: Bearer secret\r\nContent-Length: 0\r\n\r\n", method, path, protocol)
	if err != nil {
		t.Fatal(err)
	}
	reader := bufio.NewReader(conn)
	answer, err := http.ReadResponse(reader, nil)
	if err != nil {
		t.Fatal(err)
	}
	return answer, conn, reader
}

func TestStreams(t *testing.T) {
	n := start(t, nil)
	n.at = streamer(t) + "/token?x=y"
	for _, c := range []struct{ method, path, protocol, asked string }{
		{"POST", "/exec/ns/p/c0?command=a&command=b+c&input=1&output=1&error=1", "SPDY/3.1", `exec a ["a" "b c"] {true true true false}`},
		{"GET", "/exec/ns/p/p-uid/c0?command=a&output=1&error=1&tty=1", "websocket", `exec a ["a"] {false true false true}`},
		{"POST", "/exec/ns/mirror/of-the-mirror/c0?command=a&output=1", "SPDY/3.1", `exec m ["a"] {false true false false}`},
		{"POST", "/attach/ns/p/c0?input=1&output=1&error=1&tty=1", "SPDY/3.1", `attach a {true true false false}`},
		{"POST", "/attach/ns/p/c1?output=1&error=1", "anything", `attach t {false true false true}`},
		{"POST", "/portForward/ns/p", "SPDY/3.1", `forward new []`},
		{"GET", "/portForward/ns/p/p-uid?port=80,443&port=8080", "websocket", `forward new [80 443 8080]`},
	} {
		n.asked = nil
		answer, conn, reader := n.upgrade(t, c.method, c.path, c.protocol)
		if answer.StatusCode != http.StatusSwitchingProtocols || answer.Header.Get("Upgrade") != c.protocol {
			t.Fatalf("%s: %s %s", c.path, answer.Status, answer.Header)
		}
		if asked := answer.Header.Get("X-Asked"); asked != c.method+` /token?x=y ""` {
			t.Errorf("%s: the runtime was asked %s", c.path, asked)
		}
		for _, line := range []string{"hello\n", "bye\n"} {
			if _, err := io.WriteString(conn, line); err != nil {
				t.Fatal(err)
			}
			if got, err := reader.ReadString('\n'); err != nil || got != strings.ToUpper(line) {
				t.Errorf("%s: %q came back as %q, %v", c.path, line, got, err)
			}
		}
		if _, err := reader.ReadByte(); err == nil {
			t.Errorf("%s: the stream goes on although the runtime has ended it", c.path)
		}
		if len(n.asked) != 1 || n.asked[0] != c.asked {
			t.Errorf("%s: asked %q, want %s", c.path, n.asked, c.asked)
		}
	}
}

func TestStreamErrors(t *testing.T) {
	n := start(t, nil)
	web := streamer(t)
	for _, c := range []struct {
		at, path string
		err      error
		code     int
		want     string
	}{
		{web + "/refuse", "/exec/ns/p/c0?output=1", nil, 404, "the token is spent\n"},
		{"http://127.0.0.1:1/", "/exec/ns/p/c0?output=1", nil, 500, "error dialing backend: dial tcp 127.0.0.1:1: connect: connection refused"},
		{"http://127.0.0.2:1/", "/exec/ns/p/c0?output=1", nil, 500, "error dialing backend: dial tcp 127.0.0.2:1: connect: connection refused"},
		{"http://example.com:1/", "/exec/ns/p/c0?output=1", nil, 500, "the container runtime streams at example.com:1 without TLS, which is not this host"},
		{"http://192.0.2.1:1/", "/exec/ns/p/c0?output=1", nil, 500, "the container runtime streams at 192.0.2.1:1 without TLS, which is not this host"},
		{strings.Replace(web, "http", "https", 1), "/exec/ns/p/c0?output=1", nil, 500, "error dialing backend: tls: first record does not look like a TLS handshake"},
		{"", "/portForward/ns/p?port=0", nil, 400, `port "0" must be > 0`},
		{"", "/portForward/ns/p?port=x", nil, 400, `unable to parse "x" as a port: strconv.ParseUint: parsing "x": invalid syntax`},
		{"", "/portForward/ns/p?port=", nil, 400, `query parameter "port" cannot be empty`},
		{"", "/portForward/ns/p", nil, 400, `query parameter "port" is required`},
	} {
		n.at, n.err = c.at, c.err
		answer, _, _ := n.upgrade(t, http.MethodGet, c.path, "websocket")
		text, err := io.ReadAll(answer.Body)
		if err != nil || answer.StatusCode != c.code || string(text) != c.want {
			t.Errorf("%s: %d %q %v, want %d %q", c.path, answer.StatusCode, text, err, c.code, c.want)
		}
	}
	n.err = fmt.Errorf("container: %w", cri.ErrNotFound)
	if code, _ := n.ask(t, "admin", http.MethodGet, "/runningpods/"); code != http.StatusNotFound {
		t.Errorf("not found: %d", code)
	}
}

// TestEnd: the end of the server ends its streams and followed logs.
func TestEnd(t *testing.T) {
	n := start(t, nil)
	n.at = streamer(t)
	_, conn, reader := n.upgrade(t, http.MethodPost, "/exec/ns/p/c0?output=1", "SPDY/3.1")
	transport := &http.Transport{TLSClientConfig: n.tls(t, "admin")}
	defer transport.CloseIdleConnections()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+n.address+"/containerLogs/ns/p/c0?follow=true", nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := transport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	log := bufio.NewReader(answer.Body)
	for _, want := range []string{"one\n", "two\n"} {
		if line, err := log.ReadString('\n'); err != nil || line != want {
			t.Fatalf("%q, %v", line, err)
		}
	}
	n.stop()
	if _, err := reader.ReadByte(); err == nil {
		t.Error("the stream goes on")
	}
	if _, err := log.ReadByte(); err == nil {
		t.Error("the log goes on")
	}
	_ = conn.Close()
}
