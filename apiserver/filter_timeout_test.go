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

	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"

	"github.com/keelson-dev/keelson/apiserver"
	"github.com/keelson-dev/keelson/apiserver/audit"
)

const timedOut = `{"metadata":{},"status":"Failure","message":"Timeout: request did not complete within the allotted timeout","reason":"Timeout","details":{},"code":504}` + "\n"

// slowly does not notice that its time is over before it has gone on for five minutes.
func slowly(after func(w http.ResponseWriter, r *http.Request)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		time.Sleep(5 * time.Minute)
		after(w, r)
	})
}

func TestTimeouts(t *testing.T) {
	tests := []struct {
		name, query string
		limit, want time.Duration
	}{
		{name: "a minute", want: time.Minute},
		{name: "the server's", limit: 10 * time.Second, want: 10 * time.Second},
		{name: "the client's", query: "?timeout=2s", want: 2 * time.Second},
		{name: "none of the client's", query: "?timeout=0s", want: time.Minute},
		{name: "empty", query: "?timeout=", want: time.Minute},
		{name: "less than none", query: "?timeout=-1s", want: time.Minute},
		{name: "more than the server's", query: "?timeout=1h", limit: time.Second, want: time.Second},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				late := make(chan error, 1)
				s := newServer(t, apiserver.Options{Patience: apiserver.Patience{Request: test.limit}, Paths: map[string]http.Handler{
					"/slow": slowly(func(w http.ResponseWriter, r *http.Request) {
						w.Header().Set("Late", "yes")
						_, err := io.WriteString(w, "too late")
						late <- errors.Join(err, context.Cause(r.Context()))
					}),
				}})
				began := time.Now()
				w := call(s, "ann", "GET", "/slow"+test.query)
				if took := time.Since(began); took != test.want {
					t.Errorf("took %v, want %v", took, test.want)
				}
				if w.Code != 504 || w.Body.String() != timedOut || w.Header().Get("Audit-Id") == "" || w.Header().Get("Content-Type") != "text/plain; charset=utf-8" && w.Header().Get("Content-Type") != "" {
					t.Errorf("%d %q %v", w.Code, w.Body, w.Header())
				}
				if err := <-late; !errors.Is(err, http.ErrHandlerTimeout) || !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("the handler was told %v", err)
				}
				if w.Header().Get("Late") != "" {
					t.Error("the handler's header has reached a response that was sent")
				}
			})
		})
	}
}

// TestTimeoutInTheMiddle: an answer that has begun is broken off.
func TestTimeoutInTheMiddle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, apiserver.Options{Paths: map[string]http.Handler{
			"/slow": http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.WriteString(w, "half")
				<-r.Context().Done()
			}),
		}})
		w := httptest.NewRecorder()
		func() {
			defer func() {
				if p := recover(); p != http.ErrAbortHandler { //nolint:errorlint // never wrapped
					t.Errorf("recovered %v", p)
				}
			}()
			s.ServeHTTP(w, from("ann", "GET", "/slow"))
		}()
		if w.Code != 200 || w.Body.String() != "half" {
			t.Errorf("%d %q", w.Code, w.Body)
		}
	})
}

// TestTimeoutNoticedByBoth: the whole answer of a handler that noticed the deadline itself is sent.
func TestTimeoutNoticedByBoth(t *testing.T) {
	for range 50 { // which of the two comes first is chance
		synctest.Test(t, func(t *testing.T) {
			s := newServer(t, apiserver.Options{Paths: map[string]http.Handler{
				"/slow": http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					<-r.Context().Done()
					w.WriteHeader(http.StatusGatewayTimeout)
					for range 3 {
						_, _ = io.WriteString(w, "I noticed. ")
						time.Sleep(time.Millisecond)
					}
				}),
			}})
			w := call(s, "ann", "GET", "/slow")
			time.Sleep(time.Second) // the handler may still be at it
			if got := w.Body.String(); w.Code != 504 || got != timedOut && got != "I noticed. I noticed. I noticed. " {
				t.Fatalf("%d %q", w.Code, got)
			}
		})
	}
}

// TestTimeoutInProcess: the caller waits in the goroutine that serves it, so that the handler has
// to notice.
func TestTimeoutInProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, apiserver.Options{Paths: map[string]http.Handler{
			"/slow": http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }),
		}})
		transport := apiserver.NewTransport(s, nil)
		defer transport.Close()
		r := from("ann", "GET", "http://keelson/slow?timeout=3s")
		r.RequestURI = ""
		began := time.Now()
		resp, err := transport.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		if err != nil || resp.StatusCode != http.StatusGatewayTimeout || time.Since(began) != 3*time.Second ||
			!strings.Contains(string(body), `"message":"Timeout: request did not complete within the allotted timeout"`) {
			t.Errorf("%d %s %v after %v", resp.StatusCode, body, err, time.Since(began))
		}
	})
}

// TestTimeoutOfStreams: long-running requests have none.
func TestTimeoutOfStreams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, apiserver.Options{Paths: map[string]http.Handler{
			"/debug/pprof/": slowly(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "done") }),
		}})
		if w := call(s, "ann", "GET", "/debug/pprof/profile?timeout=1s"); w.Code != 200 || w.Body.String() != "done" {
			t.Errorf("%d %q", w.Code, w.Body)
		}
	})
}

// TestTimeoutAudited: the record of a request that timed out is completed when its handler ends.
func TestTimeoutAudited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sink := &audit.Memory{}
		s := newServer(t, apiserver.Options{
			Audit: audit.New(audit.Everything(auditv1.LevelMetadata), sink, audit.Options{}),
			Paths: map[string]http.Handler{
				"/slow":  slowly(func(http.ResponseWriter, *http.Request) {}),
				"/angry": slowly(func(http.ResponseWriter, *http.Request) { panic("so late") }),
			},
		})
		for path, want := range map[string]struct {
			stage   auditv1.Stage
			message string
		}{
			"/slow": {auditv1.StageResponseComplete, "Connection closed early"}, "/angry": {auditv1.StagePanic, "APIServer panic'd: so late"},
		} {
			before := len(sink.Events())
			call(s, "ann", "GET", path)
			if n := len(sink.Events()) - before; n != 1 {
				t.Errorf("%d events at the time-out", n)
			}
			time.Sleep(5 * time.Minute)
			synctest.Wait()
			events := sink.Events()[before:]
			if len(events) != 2 || events[1].Stage != want.stage || events[1].ResponseStatus.Message != want.message {
				t.Errorf("%s: %+v", path, events)
			}
		}
	})
}

// TestClientGone: a handler is told when its client hangs up.
func TestClientGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		told := make(chan error, 1)
		s := newServer(t, apiserver.Options{Paths: map[string]http.Handler{
			"/slow": http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				<-r.Context().Done()
				told <- r.Context().Err()
			}),
		}})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		s.ServeHTTP(httptest.NewRecorder(), from("ann", "GET", "/slow").WithContext(ctx))
		if err := <-told; !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
	})
}
