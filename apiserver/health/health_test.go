package health_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/keelson-dev/keelson/apiserver/health"
)

func get(handlers map[string]http.Handler, path string) (int, string) {
	r := httptest.NewRequest(http.MethodGet, path, nil)
	w := httptest.NewRecorder()
	handlers[r.URL.Path].ServeHTTP(w, r)
	return w.Code, w.Body.String()
}

func fails(name string, err error) health.Check {
	return health.Check{Name: name, Run: func(context.Context) error { return err }}
}

// TestOutput: the words are upstream's.
func TestOutput(t *testing.T) {
	var log bytes.Buffer
	grouped := fails("shard-2", nil)
	grouped.Group = "shards"
	handlers := health.New(health.Options{
		Checks: []health.Check{fails("storage", errors.New("no route to the disk")), grouped, fails("poststarthook/a", nil)},
		Ready:  []health.Check{fails("shutdown", nil)},
		Logger: slog.New(slog.NewTextHandler(&log, nil)),
	})
	tests := []struct {
		path string
		code int
		body string
	}{
		{"/healthz", 500, "[+]ping ok\n[-]storage failed: reason withheld\n[+]shard-2 ok\n[+]poststarthook/a ok\nhealthz check failed\n"},
		{"/livez", 500, "[+]ping ok\n[-]storage failed: reason withheld\n[+]shard-2 ok\n[+]poststarthook/a ok\nlivez check failed\n"},
		{"/readyz", 500, "[+]ping ok\n[-]storage failed: reason withheld\n[+]shard-2 ok\n[+]poststarthook/a ok\n[+]shutdown ok\nreadyz check failed\n"},
		{"/readyz?exclude=storage", 200, "ok"},
		{"/readyz?exclude=storage&verbose", 200, "[+]ping ok\n[+]storage excluded: ok\n[+]shard-2 ok\n[+]poststarthook/a ok\n[+]shutdown ok\nreadyz check passed\n"},
		{"/livez?exclude=storage&exclude=shards&verbose=", 200, "[+]ping ok\n[+]storage excluded: ok\n[+]shard-2 excluded with shards: ok\n[+]poststarthook/a ok\nlivez check passed\n"},
		{"/livez?exclude=storage&exclude=z&exclude=b&exclude=z&verbose", 200, "[+]ping ok\n[+]storage excluded: ok\n[+]shard-2 ok\n[+]poststarthook/a ok\nwarn: some health checks cannot be excluded: no matches for \"b\",\"z\"\nlivez check passed\n"},
		{"/livez?exclude=storage&exclude=z", 200, "ok"},
		{"/livez/ping", 200, "ok"},
		{"/readyz/storage", 500, "internal server error: no route to the disk\n"},
		{"/readyz/poststarthook/a", 200, "ok"},
	}
	for _, test := range tests {
		t.Run(test.path, func(t *testing.T) {
			code, body := get(handlers, test.path)
			if diff := cmp.Diff(test.body, body); code != test.code || diff != "" {
				t.Errorf("%d, want %d (-want +got) %s", code, test.code, diff)
			}
		})
	}
	if !strings.Contains(log.String(), `msg="health check failed" endpoint=readyz checks=[storage] error="storage: no route to the disk"`) {
		t.Errorf("log: %s", log.String())
	}
	w := httptest.NewRecorder()
	handlers["/livez"].ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/livez?exclude=storage", nil))
	if w.Header().Get("Content-Type") != "text/plain; charset=utf-8" || w.Header().Get("X-Content-Type-Options") != "nosniff" {
		t.Errorf("%v", w.Header())
	}
}

func TestPaths(t *testing.T) {
	want := []string{"/healthz", "/healthz/ping", "/livez", "/livez/ping", "/readyz", "/readyz/ping"}
	handlers := health.New(health.Options{})
	if diff := cmp.Diff(want, slices.Sorted(maps.Keys(handlers))); diff != "" {
		t.Error(diff)
	}
	if code, body := get(handlers, "/healthz"); code != 200 || body != "ok" {
		t.Error(code, body)
	}
}

// TestChecks: what each check says, before and after.
func TestChecks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		started, begun := make(chan struct{}), make(chan struct{})
		pending := []string{"pods", "nodes"}
		handlers := health.New(health.Options{
			Checks: []health.Check{
				health.Log(slog.New(slog.DiscardHandler)),
				health.Storage("storage", func(ctx context.Context) error {
					select {
					case <-started:
						return nil
					case <-ctx.Done():
						return ctx.Err()
					}
				}),
				health.Started("rbac/bootstrap-roles", started),
			},
			Ready: []health.Check{health.Synced(func() []string { return pending }), health.Shutdown(begun)},
			Grace: 10 * time.Second,
		})
		expect := func(path string, code int, body string) {
			t.Helper()
			if gotCode, got := get(handlers, path); gotCode != code || got != body {
				t.Errorf("%s: %d %q, want %d %q", path, gotCode, got, code, body)
			}
		}
		expect("/livez/log", 200, "ok")
		began := time.Now()
		expect("/livez/storage", 500, "internal server error: context deadline exceeded\n")
		if took := time.Since(began); took != 2*time.Second {
			t.Errorf("the storage was given %v", took)
		}
		expect("/livez?exclude=storage", 200, "ok") // by grace
		expect("/readyz/poststarthook/rbac/bootstrap-roles", 500, "internal server error: not finished\n")
		expect("/readyz/informer-sync", 500, "internal server error: 2 informers not started yet: [pods nodes]\n")
		time.Sleep(10 * time.Second)
		expect("/livez?exclude=storage", 500, "[+]ping ok\n[+]log ok\n[+]storage excluded: ok\n[-]poststarthook/rbac/bootstrap-roles failed: reason withheld\nlivez check failed\n")
		close(started)
		pending = nil
		expect("/livez", 200, "ok")
		expect("/readyz", 200, "ok")
		close(begun)
		expect("/readyz/shutdown", 500, "internal server error: process is shutting down\n")
		expect("/readyz", 500, "[+]ping ok\n[+]log ok\n[+]storage ok\n[+]poststarthook/rbac/bootstrap-roles ok\n[+]informer-sync ok\n[-]shutdown failed: reason withheld\nreadyz check failed\n")
		expect("/livez", 200, "ok")
	})
}

// stuck is a writer that takes nothing until it is released.
type stuck struct{ released chan struct{} }

func (s stuck) Write(b []byte) (int, error) {
	<-s.released
	return len(b), nil
}

// TestLog: a log that is held up is noticed, and probes do not pile up behind it.
func TestLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := stuck{make(chan struct{})}
		check := health.Log(slog.New(slog.NewTextHandler(s, &slog.HandlerOptions{Level: slog.LevelDebug})))
		for range 3 {
			began := time.Now()
			if err := check.Run(t.Context()); err == nil || err.Error() != "logging blocked" || time.Since(began) != time.Second {
				t.Errorf("%v after %v", err, time.Since(began))
			}
		}
		close(s.released)
		synctest.Wait()
		if err := check.Run(t.Context()); err != nil {
			t.Error(err)
		}
		if err := health.Log(slog.New(slog.NewTextHandler(io.Discard, nil))).Run(t.Context()); err != nil {
			t.Error(err)
		}
	})
}
