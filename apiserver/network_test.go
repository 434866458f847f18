package apiserver_test

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/keelson-dev/keelson/apiserver"
)

// TestNetwork: behind a real listener, in both versions of HTTP, a time-out is answered while the
// handler goes on, what is flushed arrives, and panics break off.
func TestNetwork(t *testing.T) {
	for _, version := range []string{"HTTP/1.1", "HTTP/2.0"} {
		t.Run(version, func(t *testing.T) {
			release := make(chan struct{})
			s := newServer(t, apiserver.Options{Paths: map[string]http.Handler{
				"/slow": http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }),
				"/debug/pprof/": http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					_, _ = io.WriteString(w, "first\n")
					w.(http.Flusher).Flush()
					<-r.Context().Done()
				}),
				"/half": http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
					_, _ = io.WriteString(w, "half")
					_ = http.NewResponseController(w).Flush()
					panic("oh")
				}),
			}})
			server := httptest.NewUnstartedServer(s)
			server.EnableHTTP2 = version == "HTTP/2.0"
			server.StartTLS()
			defer server.Close()
			defer close(release)
			get := func(path string) *http.Response {
				t.Helper()
				r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+path, nil)
				if err != nil {
					t.Fatal(err)
				}
				r.Header.Set("Authorization", "Bearer ann")
				resp, err := server.Client().Do(r)
				if err != nil {
					t.Fatal(err)
				}
				return resp
			}
			resp := get("/slow?timeout=20ms")
			body, err := io.ReadAll(resp.Body)
			if err != nil || resp.Proto != version || resp.StatusCode != http.StatusGatewayTimeout || string(body) != timedOut ||
				resp.Header.Get("Content-Type") != "text/plain; charset=utf-8" || resp.Header.Get("Cache-Control") != "no-cache, private" {
				t.Errorf("%s %d %q %v %v", resp.Proto, resp.StatusCode, body, resp.Header, err)
			}
			resp = get("/debug/pprof/x")
			if line, err := bufio.NewReader(resp.Body).ReadString('\n'); line != "first\n" {
				t.Errorf("%q %v", line, err)
			}
			resp.Body.Close()
			resp = get("/half")
			if body, err := io.ReadAll(resp.Body); string(body) != "half" || err == nil {
				t.Errorf("an answer that was broken off: %q %v", body, err)
			}
		})
	}
}

// TestHijack: a handler may take the connection over, whether its request is timed or not.
func TestHijack(t *testing.T) {
	upgrade := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		connection, buffer, err := w.(http.Hijacker).Hijack()
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		defer connection.Close()
		_, _ = buffer.WriteString("HTTP/1.1 101 Switching Protocols\r\n\r\nyours")
		_ = buffer.Flush()
		if _, err := w.Write([]byte("more")); err == nil {
			_, _ = buffer.WriteString("written past the hijacker")
			_ = buffer.Flush()
		}
	})
	s := newServer(t, apiserver.Options{Paths: map[string]http.Handler{"/upgrade": upgrade, "/debug/pprof/upgrade": upgrade}})
	server := httptest.NewServer(s)
	defer server.Close()
	for _, path := range []string{"/upgrade", "/debug/pprof/upgrade"} {
		connection, err := net.Dial("tcp", strings.TrimPrefix(server.URL, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		defer connection.Close()
		_, _ = io.WriteString(connection, "GET "+path+" HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ann\r\n\r\n")
		answer, err := io.ReadAll(connection)
		if err != nil || string(answer) != "HTTP/1.1 101 Switching Protocols\r\n\r\nyours" {
			t.Errorf("%s: %q %v", path, answer, err)
		}
	}
}
