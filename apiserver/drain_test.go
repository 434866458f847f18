package apiserver_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/keelson-dev/keelson/apiserver"
	"github.com/keelson-dev/keelson/apiserver/health"
)

func TestDrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		drain := apiserver.NewDrain()
		paths := health.New(health.Options{Ready: []health.Check{health.Shutdown(drain.Begun())}})
		paths["/slow"] = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			time.Sleep(30 * time.Second)
			_, _ = io.WriteString(w, "done")
		})
		paths["/debug/pprof/"] = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.WriteString(w, "begun")
			<-r.Context().Done()
			_, _ = io.WriteString(w, ", ended")
		})
		s := newServer(t, apiserver.Options{Paths: paths})
		h := drain.Handler(s)
		slow, stream, other := make(chan string, 1), make(chan string, 1), make(chan string, 1)
		go func() { slow <- call(h, "ann", "GET", "/slow").Body.String() }()
		go func() { stream <- call(h, "ann", "GET", "/debug/pprof/x").Body.String() }()
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			other <- func() string { // past the drain
				r := from("ann", "GET", "/debug/pprof/x").WithContext(ctx)
				w := httptest.NewRecorder()
				s.ServeHTTP(w, r)
				return w.Body.String()
			}()
		}()
		synctest.Wait()

		code := func(path string) int { return call(h, "ann", "GET", path).Code }
		if code("/readyz") != 200 || code("/livez") != 200 {
			t.Error("not healthy before")
		}
		drain.Begin()
		if code("/readyz") != 500 || code("/livez") != 200 || code("/version") != 200 {
			t.Error("draining: not ready, alive, served")
		}
		if body := call(h, "ann", "GET", "/readyz/shutdown").Body.String(); body != "internal server error: process is shutting down\n" {
			t.Error(body)
		}
		drain.EndStreams()
		drain.EndStreams() // again
		if got := <-stream; got != "begun, ended" {
			t.Errorf("stream: %q", got)
		}
		w := call(h, "ann", "GET", "/api/v1/pods?watch=1", "Accept", "application/vnd.kubernetes.protobuf")
		if w.Code != 503 || w.Header().Get("Retry-After") != "1" || !strings.Contains(w.Body.String(), `"message":"apiserver is shutting down","reason":"ServiceUnavailable","code":503`) {
			t.Errorf("a new watch: %d %s %v", w.Code, w.Body, w.Header())
		}
		if code("/version") != 200 {
			t.Error("others are no longer served")
		}

		short, stop := context.WithTimeout(t.Context(), time.Second)
		defer stop()
		if err := drain.Wait(short); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("while a request is served: %v", err)
		}
		began := time.Now()
		if err := drain.Wait(t.Context()); err != nil || time.Since(began) != 29*time.Second {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		if got := <-slow; got != "done" {
			t.Errorf("slow: %q", got)
		}
		if err := drain.Wait(t.Context()); err != nil {
			t.Error(err)
		}
		select {
		case got := <-other:
			t.Errorf("the stream past the drain has ended: %q", got)
		default:
		}
		cancel()
		<-other
	})
}
