package jsonpost_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/keelson-dev/keelson/internal/jsonpost"
)

// direct reaches a handler without a network, for virtual time.
type direct struct{ http.Handler }

// RoundTrip implements http.RoundTripper.
func (d direct) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	d.ServeHTTP(w, r)
	return w.Result(), nil
}

// TestFailures: what may pass is tried again, up to five times in all.
func TestFailures(t *testing.T) {
	kind := metav1.TypeMeta{APIVersion: "v1", Kind: "Answer"}
	const good = `{"apiVersion":"v1","kind":"Answer","value":7}`
	for name, c := range map[string]struct {
		code   int
		header string
		body   string
		calls  int
		want   string
	}{
		"good":           {code: 200, body: good, calls: 1},
		"created":        {code: 201, body: good, calls: 1},
		"no such path":   {code: 404, body: strings.Repeat("x", 1000), calls: 1, want: `the webhook answers 404 Not Found: "` + strings.Repeat("x", 256) + `"`},
		"too many":       {code: 429, calls: 5, want: "429 Too Many Requests"},
		"broken":         {code: 500, calls: 5, want: "500"},
		"timeout":        {code: 504, calls: 5, want: "504"},
		"unavailable":    {code: 503, calls: 1, want: "503"},
		"busy":           {code: 503, header: "1", calls: 5, want: "503"},
		"no JSON":        {code: 200, body: "<html>", calls: 1, want: "the webhook's answer: invalid character"},
		"something else": {code: 200, body: `{"apiVersion":"v1","kind":"Status"}`, calls: 1, want: "the webhook's answer is v1 Status, not v1 Answer"},
		"another type":   {code: 200, body: `{"apiVersion":"v1","kind":"Answer","value":"x"}`, calls: 1, want: "the webhook's answer: json: cannot unmarshal string"},
		"a large answer": {code: 200, body: strings.Repeat(" ", 1<<20+1-len(good)) + good, calls: 1, want: "the webhook's answer is larger than 1048576 bytes"},
		"still small":    {code: 200, body: strings.Repeat(" ", 1<<20-len(good)) + good, calls: 1},
		"another group":  {code: 200, body: `{"apiVersion":"v2","kind":"Answer"}`, calls: 1, want: "the webhook's answer is v2 Answer, not v1 Answer"},
	} {
		synctest.Test(t, func(t *testing.T) {
			calls := 0
			client, err := jsonpost.New(&rest.Config{Host: "https://x/y?z", Transport: direct{http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				calls++
				body, _ := io.ReadAll(r.Body)
				if string(body) != `"asked"` || r.URL.String() != "https://x/y?z" || r.Method != http.MethodPost || r.Header.Get("Content-Type") != "application/json" || r.Header.Get("Accept") != "application/json" {
					t.Errorf("%s %s: %s %v", r.Method, r.URL, body, r.Header)
				}
				if c.header != "" {
					w.Header().Set("Retry-After", c.header)
				}
				w.WriteHeader(c.code)
				fmt.Fprint(w, c.body)
			})}}, jsonpost.Options{})
			if err != nil {
				t.Fatal(err)
			}
			began := time.Now()
			var answer struct{ Value int }
			err = client.Post(t.Context(), kind, "asked", &answer)
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) || calls != c.calls || c.want == "" && answer.Value != 7 {
				t.Errorf("%s: %+v, %v after %d calls", name, answer, err, calls)
			}
			if took := time.Since(began); took > jsonpost.Longest(0) || c.calls == 5 && took != jsonpost.Longest(0) {
				t.Errorf("%s: took %v", name, took)
			}
		})
	}
}

// TestBroken: connections that break are tried again, what else fails is not, and nothing is when nobody waits any more.
func TestBroken(t *testing.T) {
	for name, c := range map[string]struct {
		fails error // of the transport
		body  error // of reading the answer
		end   time.Duration
		calls int
		took  time.Duration
	}{
		"reset":          {fails: fmt.Errorf("read: %w", syscall.ECONNRESET), calls: 5, took: 8125 * time.Millisecond / 2},
		"closed":         {fails: io.EOF, calls: 5, took: 8125 * time.Millisecond / 2},
		"refused":        {fails: syscall.ECONNREFUSED, calls: 1},
		"closed amidst":  {body: io.ErrUnexpectedEOF, calls: 5, took: 8125 * time.Millisecond / 2},
		"nobody waits":   {fails: io.EOF, end: time.Second, calls: 2, took: time.Second},
		"waits no pause": {fails: io.EOF, end: 100 * time.Millisecond, calls: 1, took: 100 * time.Millisecond},
	} {
		synctest.Test(t, func(t *testing.T) {
			calls := 0
			client, err := jsonpost.New(&rest.Config{Host: "https://x", Transport: roundTrip(func(*http.Request) (*http.Response, error) {
				calls++
				if c.fails != nil {
					return nil, c.fails
				}
				return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(iotest.ErrReader(c.body))}, nil
			})}, jsonpost.Options{})
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), cmp.Or(c.end, time.Hour))
			defer cancel()
			began := time.Now()
			err = client.Post(ctx, metav1.TypeMeta{}, nil, nil)
			if !errors.Is(err, cmp.Or(c.fails, c.body)) || calls != c.calls || time.Since(began) != c.took {
				t.Errorf("%s: %v after %d calls in %v", name, err, calls, time.Since(began))
			}
		})
	}
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// TestOptions: the pause and the name of the answer may be others, and any kind may be welcome.
func TestOptions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		client, err := jsonpost.New(&rest.Config{Host: "https://x", Transport: direct{http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			if calls++; calls < 3 {
				w.WriteHeader(http.StatusInternalServerError)
			} else {
				fmt.Fprint(w, `{"kind":"Any","value":"x"}`)
			}
		})}}, jsonpost.Options{Delay: 2 * time.Second, Answer: "what it says"})
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		var answer struct{ Value string }
		if err := client.Post(t.Context(), metav1.TypeMeta{}, nil, &answer); err != nil || answer.Value != "x" || time.Since(began) != 5*time.Second {
			t.Errorf("%+v, %v after %v", answer, err, time.Since(began))
		}
		if err := client.Post(t.Context(), metav1.TypeMeta{Kind: "Other"}, nil, &answer); err == nil || err.Error() != "what it says is  Any, not  Other" {
			t.Error(err)
		}
	})
}

// TestWrong: what cannot be posted or reached at all.
func TestWrong(t *testing.T) {
	for host, want := range map[string]string{"https://%": "invalid URL escape", "x/y": "host must be a URL or a host:port pair"} {
		if _, err := jsonpost.New(&rest.Config{Host: host}, jsonpost.Options{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", host, err)
		}
	}
	if _, err := jsonpost.New(&rest.Config{Host: "https://x", TLSClientConfig: rest.TLSClientConfig{CAData: []byte("x")}}, jsonpost.Options{}); err == nil {
		t.Error("a wrong authority is accepted")
	}
	client, err := jsonpost.New(&rest.Config{Host: "https://x", Transport: direct{http.NotFoundHandler()}}, jsonpost.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := client.Post(t.Context(), metav1.TypeMeta{}, func() {}, nil); err == nil || !strings.Contains(err.Error(), "unsupported type") {
		t.Error(err)
	}
	refused := (*jsonpost.StatusError)(nil)
	if err := client.Post(t.Context(), metav1.TypeMeta{}, nil, nil); !errors.As(err, &refused) || refused.Code != http.StatusNotFound {
		t.Error(err)
	}
}

func TestLongest(t *testing.T) {
	if got := jsonpost.Longest(time.Second); got != 5*time.Second+8125*time.Millisecond/2 {
		t.Error(got)
	}
}

// TestHost: a URL is taken as it is, and a host is asked at its root.
func TestHost(t *testing.T) {
	for host, want := range map[string]string{"example.com": "http://example.com", "example.com/": "http://example.com/", "": "http://localhost", "https://example.com/x/": "https://example.com/x/"} {
		at := ""
		client, err := jsonpost.New(&rest.Config{Host: host, Transport: direct{http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			at = r.URL.String()
		})}}, jsonpost.Options{})
		if err != nil {
			t.Fatal(err)
		}
		_ = client.Post(t.Context(), metav1.TypeMeta{}, nil, nil)
		if at != want {
			t.Errorf("%s: %s", host, at)
		}
	}
}
