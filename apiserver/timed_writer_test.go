package apiserver_test

import (
	"io"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/keelson-dev/keelson/apiserver"
)

// TestPatienceIsForClients: only the client's time counts, not the handler's, and nothing of it stays with the connection.
func TestPatienceIsForClients(t *testing.T) {
	t.Parallel()
	const short = 600 * time.Millisecond
	s := newServer(t, apiserver.Options{
		Patience: apiserver.Patience{Body: short, Answer: short},
		Paths: map[string]http.Handler{
			"/work": http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				data, err := io.ReadAll(r.Body)
				time.Sleep(3 * short)
				if err == nil {
					err = r.Context().Err()
				}
				if err != nil {
					http.Error(w, err.Error(), http.StatusInternalServerError)
					return
				}
				_, _ = w.Write(data)
			}),
			"/pauses": http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				for _, part := range []string{"th", "is"} {
					_, _ = io.WriteString(w, part)
					_ = http.NewResponseController(w).Flush()
					time.Sleep(3 * short)
				}
				_, _ = io.WriteString(w, " it")
				time.Sleep(3 * short)
			}),
			"/empty":          http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) }),
			"/unread":         http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { time.Sleep(3 * short) }),
			"/debug/pprof/it": http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { time.Sleep(3 * short); _, _ = io.WriteString(w, "lasts") }),
		},
	})
	for _, version := range []string{"HTTP/1.1", "HTTP/2.0"} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			server := listening(t, s, version)
			var made, used atomic.Int64 // connections, by requests: the client tries again where a connection broke
			trace := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{GotConn: func(i httptrace.GotConnInfo) {
				if used.Add(1); !i.Reused {
					made.Add(1)
				}
			}})
			for _, step := range []struct{ method, path, body, want string }{
				{"POST", "/work", "all of it", "all of it"},
				{"GET", "/pauses", "", "this it"},
				{"GET", "/empty", "", ""},
				{"POST", "/unread", "so what", ""},
				{"GET", "/debug/pprof/it", "", "lasts"},
				{"POST", "/work", "again", "again"},
			} {
				time.Sleep(2 * short) // what was set for the last answer is over
				r, err := http.NewRequestWithContext(trace, step.method, server.URL+step.path, strings.NewReader(step.body))
				if err != nil {
					t.Fatal(err)
				}
				r.Header.Set("Authorization", "Bearer ann")
				resp, err := server.Client().Do(r)
				if err != nil {
					t.Errorf("%s: %v", step.path, err)
					continue
				}
				data, err := io.ReadAll(resp.Body)
				if resp.Body.Close(); err != nil || resp.StatusCode != http.StatusOK || string(data) != step.want {
					t.Errorf("%s: %s, %q, %v", step.path, resp.Status, data, err)
				}
				if resp.Proto != version {
					t.Errorf("by %s", resp.Proto)
				}
			}
			if made.Load() != 1 || used.Load() != 6 {
				t.Errorf("%d connections, used %d times for 6 requests", made.Load(), used.Load())
			}
		})
	}
}
