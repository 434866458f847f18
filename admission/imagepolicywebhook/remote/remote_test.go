package remote_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"k8s.io/api/imagepolicy/v1alpha1"
	"k8s.io/client-go/rest"

	"github.com/keelson-dev/keelson/admission/imagepolicywebhook/remote"
)

const answer = `{"apiVersion":"imagepolicy.k8s.io/v1alpha1","kind":"ImageReview","status":{"allowed":true,"reason":"fine"}}`

// serve returns the configuration of a client of a handler behind TLS.
func serve(t testing.TB, h http.HandlerFunc) *rest.Config {
	t.Helper()
	s := httptest.NewTLSServer(h)
	t.Cleanup(s.Close)
	return &rest.Config{Host: s.URL + "/policy?x=y", TLSClientConfig: rest.TLSClientConfig{Insecure: true}, BearerToken: "secret"}
}

func TestReview(t *testing.T) {
	b, err := remote.New(serve(t, func(w http.ResponseWriter, r *http.Request) {
		var review v1alpha1.ImageReview
		if err := json.NewDecoder(r.Body).Decode(&review); err != nil || review.Kind != "ImageReview" || review.APIVersion != "imagepolicy.k8s.io/v1alpha1" || review.Spec.Namespace != "ns" ||
			r.Method != http.MethodPost || r.URL.String() != "/policy?x=y" || r.Header.Get("Authorization") != "Bearer secret" || r.Header.Get("Content-Type") != "application/json" {
			t.Errorf("%s %s %v: %+v, %v", r.Method, r.URL, r.Header, review, err)
		}
		fmt.Fprint(w, answer)
	}), remote.Options{})
	if err != nil {
		t.Fatal(err)
	}
	asked := &v1alpha1.ImageReview{Spec: v1alpha1.ImageReviewSpec{Namespace: "ns"}}
	status, err := b.Review(t.Context(), asked)
	if err != nil || !status.Allowed || status.Reason != "fine" || asked.Kind != "" {
		t.Errorf("%+v, %v", status, err)
	}
}

// TestFailures: what may pass is tried again, up to five times in all.
func TestFailures(t *testing.T) {
	for name, c := range map[string]struct {
		code   int
		header string
		body   string
		calls  int
		want   string
	}{
		"no such path":   {code: 404, calls: 1, want: "Error contacting webhook: 404"},
		"redirect":       {code: 304, calls: 1, want: "Error contacting webhook: 304"},
		"too many":       {code: 429, calls: 5, want: "Error contacting webhook: 429"},
		"broken":         {code: 500, calls: 5, want: "Error contacting webhook: 500"},
		"timeout":        {code: 504, calls: 5, want: "Error contacting webhook: 504"},
		"unavailable":    {code: 503, calls: 1, want: "Error contacting webhook: 503"},
		"busy":           {code: 503, header: "1", calls: 5, want: "Error contacting webhook: 503"},
		"no JSON":        {code: 200, body: "<html>", calls: 1, want: "the answer of the image policy backend: invalid character"},
		"something else": {code: 200, body: `{"apiVersion":"v1","kind":"Status"}`, calls: 1, want: "the answer of the image policy backend is /v1, Kind=Status, not an ImageReview"},
		"a large answer": {code: 200, body: strings.Repeat(" ", 1<<20) + answer, calls: 1, want: "larger than 1048576 bytes"},
	} {
		calls := 0
		b, err := remote.New(serve(t, func(w http.ResponseWriter, _ *http.Request) {
			calls++
			if c.header != "" {
				w.Header().Set("Retry-After", c.header)
			}
			w.WriteHeader(c.code)
			fmt.Fprint(w, c.body)
		}), remote.Options{RetryDelay: time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := b.Review(t.Context(), &v1alpha1.ImageReview{}); err == nil || !strings.Contains(err.Error(), c.want) || calls != c.calls {
			t.Errorf("%s: %v after %d calls", name, err, calls)
		}
	}
	// What passes in time is no failure.
	calls := 0
	b, err := remote.New(serve(t, func(w http.ResponseWriter, _ *http.Request) {
		if calls++; calls < 5 {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		fmt.Fprint(w, answer)
	}), remote.Options{RetryDelay: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	if status, err := b.Review(t.Context(), &v1alpha1.ImageReview{}); err != nil || !status.Allowed || calls != 5 {
		t.Errorf("%+v, %v after %d calls", status, err, calls)
	}
}

func TestNew(t *testing.T) {
	for host, want := range map[string]string{"http://example.com": "must be a URL of HTTPS", "https://%": "invalid URL escape"} {
		if _, err := remote.New(&rest.Config{Host: host}, remote.Options{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", host, err)
		}
	}
	if _, err := remote.New(&rest.Config{Host: "https://x", TLSClientConfig: rest.TLSClientConfig{CAData: []byte("x")}}, remote.Options{}); err == nil {
		t.Error("a wrong authority is accepted")
	}
}

func ExampleNew() {
	b, err := remote.New(&rest.Config{Host: "https://images.example.com/policy"}, remote.Options{})
	fmt.Println(b != nil, err)
	// Output: true <nil>
}
