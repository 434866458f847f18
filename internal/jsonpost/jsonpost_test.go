package jsonpost_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
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
		"a large answer": {code: 200, body: strings.Repeat(" ", 1<<20) + good, calls: 1, want: "larger than 1048576 bytes"},
	} {
		synctest.Test(t, func(t *testing.T) {
			calls := 0
			client, err := jsonpost.New(&rest.Config{Host: "https://x/y?z", Transport: direct{http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				calls++
				body, _ := io.ReadAll(r.Body)
				if string(body) != `"asked"` || r.URL.String() != "https://x/y?z" || r.Header.Get("Content-Type") != "application/json" {
					t.Errorf("%s: %s %v", r.URL, body, r.Header)
				}
				if c.header != "" {
					w.Header().Set("Retry-After", c.header)
				}
				w.WriteHeader(c.code)
				fmt.Fprint(w, c.body)
			})}})
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

// TestHost: a host without a path is asked at its root.
func TestHost(t *testing.T) {
	at := ""
	client, err := jsonpost.New(&rest.Config{Host: "example.com", TLSClientConfig: rest.TLSClientConfig{}, Transport: direct{http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		at = r.URL.String()
	})}})
	if err != nil {
		t.Fatal(err)
	}
	_ = client.Post(t.Context(), metav1.TypeMeta{}, nil, nil)
	if at != "http://example.com/" && at != "http://example.com" {
		t.Error(at)
	}
}
