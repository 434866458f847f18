package apiserver_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/keelson-dev/keelson/apiserver"
	"github.com/keelson-dev/keelson/authz/alwaysallow"
	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/registry/core"
	"github.com/keelson-dev/keelson/storage/memory"
)

// patient is how long the tests wait for what takes a second or two.
const patient = 20 * time.Second

// listening serves a handler behind a real listener, over TLS.
func listening(t *testing.T, h http.Handler, version string) *httptest.Server {
	t.Helper()
	server := httptest.NewUnstartedServer(h)
	server.EnableHTTP2 = version == "HTTP/2.0"
	server.StartTLS()
	t.Cleanup(server.Close)
	return server
}

// stuck begins a request in HTTP/1.1 over a connection of its own with small buffers.
func stuck(t *testing.T, server *httptest.Server, request string) net.Conn {
	t.Helper()
	tcp, err := net.Dial("tcp", server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tcp.Close() })
	if err := tcp.(*net.TCPConn).SetReadBuffer(4 << 10); err != nil {
		t.Fatal(err)
	}
	connection := tls.Client(tcp, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"http/1.1"}})
	if err := connection.SetReadDeadline(time.Now().Add(patient)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(connection, request); err != nil {
		t.Fatal(err)
	}
	return connection
}

// seat waits until a request is let in.
func seat(t *testing.T, server *httptest.Server, method string) {
	t.Helper()
	for end := time.Now().Add(patient); ; time.Sleep(10 * time.Millisecond) {
		r, err := http.NewRequestWithContext(t.Context(), method, server.URL+"/quick", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer ann")
		resp, err := server.Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode == http.StatusOK {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%s: still %s", method, resp.Status)
		}
	}
}

// limited has one seat; requests may take half a second.
func limited(t *testing.T) *apiserver.Server {
	t.Helper()
	return newServer(t, apiserver.Options{
		Patience: apiserver.Patience{Request: time.Second / 2}, FlowControl: seats(1),
		Paths: map[string]http.Handler{
			"/quick":  says("ok"),
			"/upload": http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) }),
			"/download": http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				for chunk := make([]byte, 64<<10); ; {
					if _, err := w.Write(chunk); err != nil {
						return
					}
				}
			}),
		},
	})
}

// TestSlowUpload: who does not send the rest of a body is answered when time is over, and holds no
// seat any longer, whether anybody reads the body or not.
func TestSlowUpload(t *testing.T) {
	t.Parallel()
	const headers = " HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ann\r\nContent-Length: 1000\r\n\r\nhalf"
	for path, code := range map[string]string{"/upload": "504", "/version": "405"} {
		server := listening(t, limited(t), "HTTP/1.1")
		connection := stuck(t, server, "POST "+path+headers)
		answer, err := io.ReadAll(connection)
		if err != nil || !strings.HasPrefix(string(answer), "HTTP/1.1 "+code) {
			t.Errorf("%s: %q %v", path, answer, err)
		}
		seat(t, server, http.MethodPost)
	}
}

// TestSlowUploadHTTP2: the same in HTTP/2.
func TestSlowUploadHTTP2(t *testing.T) {
	t.Parallel()
	server := listening(t, limited(t), "HTTP/2.0")
	body, more := io.Pipe()
	defer more.Close()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL+"/upload", body)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer ann")
	resp, err := server.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusGatewayTimeout {
		t.Error(resp.Status)
	}
	seat(t, server, http.MethodPost)
}

// TestSlowDownload: who does not read an answer is cut off when time is over.
func TestSlowDownload(t *testing.T) {
	t.Parallel()
	t.Run("HTTP/1.1", func(t *testing.T) {
		server := listening(t, limited(t), "HTTP/1.1")
		stuck(t, server, "GET /download HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ann\r\n\r\n")
		seat(t, server, http.MethodGet)
	})
	t.Run("HTTP/2.0", func(t *testing.T) {
		server := listening(t, limited(t), "HTTP/2.0")
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+"/download", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer ann")
		resp, err := server.Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		seat(t, server, http.MethodGet)
	})
}

// TestSlowWatch: a watch whose client does not read ends with its time, and with the server. The
// connection of one who reads goes on.
func TestSlowWatch(t *testing.T) {
	t.Parallel()
	for _, version := range []string{"HTTP/1.1", "HTTP/2.0"} {
		for _, query := range []string{"?watch=1&timeoutSeconds=1", "?watch=1"} {
			t.Run(version+query, func(t *testing.T) {
				t.Parallel()
				drain := apiserver.NewDrain()
				server := listening(t, drain.Handler(large(t)), version)
				const path = "/api/v1/namespaces/n/configmaps"
				if version == "HTTP/1.1" {
					stuck(t, server, "GET "+path+query+" HTTP/1.1\r\nHost: a\r\n\r\n")
				}
				resp, err := server.Client().Get(server.URL + path + query)
				if err != nil {
					t.Fatal(err)
				}
				defer resp.Body.Close() // never read
				if !strings.Contains(query, "timeout") {
					drain.EndStreams()
				}
				ctx, cancel := context.WithTimeout(t.Context(), patient)
				defer cancel()
				if err := drain.Wait(ctx); err != nil {
					t.Errorf("the watch goes on: %v", err)
				}
			})
		}
	}
}

// TestConnectionOutlivesTimeout: what a time-out does to a connection is undone for its next request.
func TestConnectionOutlivesTimeout(t *testing.T) {
	t.Parallel()
	server := listening(t, large(t), "HTTP/1.1")
	for range 2 {
		for _, query := range []string{"?watch=1&timeoutSeconds=1", ""} {
			resp, err := server.Client().Get(server.URL + "/api/v1/namespaces/n/configmaps" + query)
			if err != nil {
				t.Fatal(err)
			}
			got, err := io.Copy(io.Discard, resp.Body)
			if resp.Body.Close(); err != nil || got < 12_000_000 {
				t.Errorf("%q: %d bytes, %v", query, got, err)
			}
		}
	}
}

// large serves twelve config maps of a megabyte.
func large(t *testing.T) *apiserver.Server {
	t.Helper()
	reg, err := registry.New(memory.New(memory.Options{}), core.Kinds(core.Options{}), registry.Options{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- reg.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	if err := reg.WaitSynced(ctx); err != nil {
		t.Fatal(err)
	}
	s := apiserver.New(reg, apiserver.Options{Authorizer: alwaysallow.New()})
	for i := range 12 {
		body := fmt.Sprintf(`{"metadata":{"name":"c%d"},"data":{"x":%q}}`, i, bytes.Repeat([]byte("x"), 1_000_000))
		w := httptest.NewRecorder()
		s.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/api/v1/namespaces/n/configmaps", strings.NewReader(body)))
		if w.Code != http.StatusCreated {
			t.Fatal(w.Code, w.Body)
		}
	}
	return s
}
