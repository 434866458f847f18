package apiserver_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/keelson-dev/keelson/apiserver"
)

const watchPath = "http://in.process/api/v1/pods?watch=1"

func get(ctx context.Context, t testing.TB, transport http.RoundTripper, url string) (*http.Response, error) {
	t.Helper()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	return transport.RoundTrip(r)
}

func TestTransportWatch(t *testing.T) {
	tests := map[string]struct {
		handler func(http.ResponseWriter, *http.Request)
		code    int
		body    string
	}{
		"nothing":        {func(http.ResponseWriter, *http.Request) {}, 200, ""},
		"header only":    {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusGone) }, 410, ""},
		"written":        {func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "a") }, 200, "a"},
		"flushed, ended": {func(w http.ResponseWriter, _ *http.Request) { _ = http.NewResponseController(w).Flush() }, 200, ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			transport := apiserver.NewTransport(http.HandlerFunc(test.handler), nil)
			defer transport.Close()
			for range 50 { // who is first, the end or the reader, must not matter
				response, err := get(t.Context(), t, transport, watchPath)
				if err != nil {
					t.Fatal(err)
				}
				body, err := io.ReadAll(response.Body)
				if err != nil || string(body) != test.body || response.StatusCode != test.code {
					t.Fatalf("%d %q %v", response.StatusCode, body, err)
				}
				response.Body.Close()
			}
		})
	}
}

// A handler that has nothing to tell yet sends its headers, so that the client knows it is there.
func TestTransportFlushSendsHeaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		transport := apiserver.NewTransport(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("X-Kind", "quiet")
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		}), nil)
		defer transport.Close()
		response, err := get(t.Context(), t, transport, watchPath)
		if err != nil {
			t.Fatal(err)
		}
		if response.StatusCode != http.StatusOK || response.Status != "200 OK" || response.Header.Get("X-Kind") != "quiet" {
			t.Errorf("%s %v", response.Status, response.Header)
		}
		response.Body.Close()
	})
}

func TestTransportEnds(t *testing.T) {
	waiting := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	})
	t.Run("by closing the body", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			transport := apiserver.NewTransport(waiting, nil)
			response, err := get(t.Context(), t, transport, watchPath)
			if err != nil {
				t.Fatal(err)
			}
			response.Body.Close()
			transport.Close() // waits for the handler
		})
	})
	t.Run("by the context", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			transport := apiserver.NewTransport(waiting, nil)
			defer transport.Close()
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			response, err := get(ctx, t, transport, watchPath)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := io.ReadAll(response.Body); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("read: %v", err)
			}
		})
	})
	t.Run("by closing the transport", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			transport := apiserver.NewTransport(waiting, nil)
			response, err := get(t.Context(), t, transport, watchPath)
			if err != nil {
				t.Fatal(err)
			}
			transport.Close()
			if _, err := io.ReadAll(response.Body); err == nil {
				t.Error("the watch ended without an error")
			}
			if _, err := get(t.Context(), t, transport, watchPath); err == nil {
				t.Error("a closed transport took a watch")
			}
			if _, err := get(t.Context(), t, transport, "http://in.process/version"); err == nil {
				t.Error("a closed transport took a request")
			}
		})
	})
	t.Run("by the handler", func(t *testing.T) {
		transport := apiserver.NewTransport(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, "half")
			panic(http.ErrAbortHandler)
		}), nil)
		defer transport.Close()
		response, err := get(t.Context(), t, transport, watchPath)
		if err != nil {
			t.Fatal(err)
		}
		if body, err := io.ReadAll(response.Body); !errors.Is(err, io.ErrUnexpectedEOF) || string(body) != "half" {
			t.Errorf("%q %v", body, err)
		}
		if _, err := get(t.Context(), t, transport, "http://in.process/version"); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("request: %v", err)
		}
	})
}

// A writer that is far ahead of its reader waits, and goes on when the reader does.
func TestTransportSlowReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const chunks, size = 64, 16 << 10
		written := 0
		transport := apiserver.NewTransport(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			for range chunks {
				if _, err := io.WriteString(w, strings.Repeat("x", size)); err != nil {
					return
				}
				written++
			}
		}), nil)
		defer transport.Close()
		response, err := get(t.Context(), t, transport, watchPath)
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if written == 0 || written == chunks {
			t.Errorf("%d of %d chunks written before anything was read", written, chunks)
		}
		n, err := io.Copy(io.Discard, response.Body)
		if err != nil || n != chunks*size {
			t.Errorf("read %d: %v", n, err)
		}
	})
}
