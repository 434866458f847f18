package post_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	registrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/keelson-dev/keelson/admission/webhook/internal/post"
)

// to is a transport that answers by a handler.
func to(handler http.HandlerFunc) transport {
	return func(r *http.Request) (*http.Response, error) {
		w := httptest.NewRecorder()
		handler(w, r)
		return w.Result(), nil
	}
}

type transport func(*http.Request) (*http.Response, error)

func (t transport) RoundTrip(r *http.Request) (*http.Response, error) { return t(r) }

// TestAnswers: the texts are those of the client that upstream calls webhooks with.
func TestAnswers(t *testing.T) {
	const status = `{"apiVersion":"v1","kind":"Status","status":"Failure","message":"hey"}`
	for _, test := range []struct {
		code         int
		kind         string
		body         string
		want, failed string
	}{
		{200, "application/json", "{}", "{}", ""},
		{200, "", "{}", "{}", ""},
		{200, "text/html", "{}", "{}", ""},
		{206, "application/json", "{}", "{}", ""},
		{200, "application/json", status, status, ""},
		{200, "bad/;;", "{}", "", "Internal error occurred: mime: expected token after slash"},
		{200, "application/json", "", "", "0-length response with status code: 200 and content type: application/json"},
		{204, "", "", "", "0-length response with status code: 204 and content type: application/json"},
		{207, "application/json", "{}", "", "the server responded with the status code 207 but did not return more information"},
		{302, "text/plain", "x", "", "the server responded with the status code 302 but did not return more information"},
		{400, "text/plain", "nope", "", "the server rejected our request for an unknown reason"},
		{400, "application/json", status, "", "hey"},
		{400, "application/json", strings.Replace(status, "Failure", "Success", 1), "", "the server rejected our request for an unknown reason"},
		{400, "application/json", strings.Replace(status, "v1", "v2", 1), "", "the server rejected our request for an unknown reason"},
		{400, "application/json", strings.Replace(status, "Status", "Pod", 1), "", "the server rejected our request for an unknown reason"},
		{401, "text/plain", "nope", "", "the server has asked for the client to provide credentials"},
		{403, "text/plain", " nope\n", "", "nope"},
		{403, "application/json", "nope", "", "unknown"},
		{404, "text/plain", "nope", "", "the server could not find the requested resource"},
		{405, "text/plain", "nope", "", "the server does not allow this method on the requested resource"},
		{413, "text/plain", "nope", "", "the server responded with the status code 413 but did not return more information"},
		{429, "text/plain", "nope", "", "the server has received too many requests and has asked us to try again later"},
		{500, "text/plain", "nope", "", `an error on the server ("nope") has prevented the request from succeeding`},
		{500, "", "", "", `an error on the server ("") has prevented the request from succeeding`},
		{500, "application/json", `{"a":1}`, "", `an error on the server ("unknown") has prevented the request from succeeding`},
		{502, "text/html; charset=utf-8", strings.Repeat("x", 3000), "", `an error on the server ("` + strings.Repeat("x", 2048) + `") has prevented the request from succeeding`},
		{503, "application/json", "{}", "", "the server is currently unable to handle the request"},
	} {
		body, err := post.Review(t.Context(), to(func(w http.ResponseWriter, _ *http.Request) {
			w.Header()["Content-Type"] = nil
			if test.kind != "" {
				w.Header().Set("Content-Type", test.kind)
			}
			w.WriteHeader(test.code)
			_, _ = io.WriteString(w, test.body)
		}), target(t, at("https://x:1/")), nil, 1<<20)
		if string(body) != test.want || (err == nil) != (test.failed == "") || err != nil && err.Error() != test.failed {
			t.Errorf("%d %s %.40s: %s, %v\nwant %s", test.code, test.kind, test.body, body, err, test.failed)
		}
	}
}

// TestOtherCodes: codes below 200 are no success, and redirects are not followed.
func TestOtherCodes(t *testing.T) {
	for code, want := range map[int]string{150: "the server responded with the status code 150 but did not return more information", 307: "the server responded with the status code 307 but did not return more information"} {
		calls := 0
		_, err := post.Review(t.Context(), transport(func(*http.Request) (*http.Response, error) {
			calls++
			return &http.Response{StatusCode: code, Header: http.Header{"Location": {"https://elsewhere"}}, Body: io.NopCloser(strings.NewReader("{}"))}, nil
		}), target(t, at("https://x:1/")), nil, 100)
		var carried apierrors.APIStatus
		if err == nil || err.Error() != want || calls != 1 || errors.As(err, &carried) {
			t.Errorf("%d: %d calls, %#v", code, calls, err)
		}
	}
}

func TestRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for path, want := range map[string]string{"": "/", "/": "/", "/a/b/": "/a/b", "a": "/a"} {
			for timeout, in := range map[time.Duration]string{0: "30s", 3 * time.Second: "3s", 3*time.Second + 1: "4s", time.Minute: "30s"} {
				ctx, cancel := t.Context(), func() {}
				if timeout > 0 {
					ctx, cancel = context.WithTimeout(ctx, timeout)
				}
				_, err := post.Review(ctx, to(func(w http.ResponseWriter, r *http.Request) {
					body, err := io.ReadAll(r.Body)
					if got := r.Method + " " + r.URL.String(); got != "POST https://a.b.svc:443"+want+"?timeout="+in || string(body) != "review" || err != nil {
						t.Errorf("%s with %q, %v", got, body, err)
					}
					if h := r.Header; h.Get("Accept") != "application/json, */*" || h.Get("Content-Type") != "application/json" || h.Get("User-Agent") != "kube-apiserver-admission" || len(h) != 3 {
						t.Errorf("headers %v", h)
					}
					_, _ = io.WriteString(w, "{}")
				}), target(t, service(path)), []byte("review"), 10)
				cancel()
				if err != nil {
					t.Error(err)
				}
			}
		}
	})
}

// TestSize: an answer may be as large as the limit.
func TestSize(t *testing.T) {
	for size, want := range map[int]string{100: "", 101: "the response is larger than 100 bytes", 1 << 20: "the response is larger than 100 bytes"} {
		body, err := post.Review(t.Context(), to(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write(bytes.Repeat([]byte("x"), size))
		}), target(t, at("https://x:1/")), nil, 100)
		if (err == nil) != (want == "") || err != nil && err.Error() != want || err == nil && len(body) != size {
			t.Errorf("%d bytes: %d, %v", size, len(body), err)
		}
	}
	broken := errors.New("reset")
	_, err := post.Review(t.Context(), transport(func(*http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(io.MultiReader(strings.NewReader("{"), failing{broken}))}, nil
	}), target(t, at("https://x:1/")), nil, 100)
	if !errors.Is(err, broken) || err.Error() != "unexpected error when reading response body. Please retry. Original error: reset" {
		t.Error(err)
	}
	_, err = post.Review(t.Context(), transport(func(*http.Request) (*http.Response, error) { return nil, broken }), target(t, at("https://x:1/p")), nil, 100)
	if !errors.Is(err, broken) || err.Error() != `Post "https://x:1/p?timeout=30s": reset` {
		t.Error(err)
	}
}

func at(url string) *registrationv1.WebhookClientConfig {
	return &registrationv1.WebhookClientConfig{URL: &url}
}

func service(path string) *registrationv1.WebhookClientConfig {
	return &registrationv1.WebhookClientConfig{Service: &registrationv1.ServiceReference{Name: "a", Namespace: "b", Path: &path}}
}

func target(t *testing.T, to *registrationv1.WebhookClientConfig) *url.URL {
	t.Helper()
	u, err := post.Target(to)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

func TestTarget(t *testing.T) {
	bare := service("")
	bare.Service.Path = nil
	port := service("/x")
	port.Service.Port = new(int32(8443))
	for _, test := range []struct {
		to           *registrationv1.WebhookClientConfig
		want, failed string
	}{
		{bare, "https://a.b.svc:443/", ""},
		{port, "https://a.b.svc:8443/x", ""},
		{at("https://x:8443/a/"), "https://x:8443/a", ""},
		{at("https://x"), "https://x/", ""},
		{at("https://%"), "", `Unparsable URL: parse "https://%": invalid URL escape "%"`},
		{at(""), "", "webhook configuration must have either service or URL"},
		{&registrationv1.WebhookClientConfig{}, "", "webhook configuration must have either service or URL"},
	} {
		u, err := post.Target(test.to)
		if (err == nil) != (test.failed == "") || err != nil && err.Error() != test.failed || err == nil && u.String() != test.want {
			t.Errorf("%v: %v, %v", test.to, u, err)
		}
	}
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

// TestRetries: a webhook may say when to come back, ten times, within the time of the call.
func TestRetries(t *testing.T) {
	const busy = "the server is currently unable to handle the request"
	const flood = "the server has received too many requests and has asked us to try again later"
	for name, test := range map[string]struct {
		code   int
		header string
		refuse int // so many requests
		calls  int
		took   time.Duration
		failed string
	}{
		"once":         {503, "2", 1, 2, 2 * time.Second, ""},
		"too many":     {429, "1", 3, 4, 3 * time.Second, ""},
		"always":       {503, "1", 99, 11, 10 * time.Second, busy},
		"too late":     {429, "20", 99, 1, 15 * time.Second, "context deadline exceeded"},
		"at once":      {500, "0", 2, 3, 0, ""},
		"not a number": {503, "soon", 1, 1, 0, busy},
		"no header":    {429, "", 1, 1, 0, flood},
		"another code": {400, "1", 1, 1, 0, "the server rejected our request for an unknown reason"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
				defer cancel()
				began, calls := time.Now(), 0
				_, err := post.Review(ctx, to(func(w http.ResponseWriter, r *http.Request) {
					if body, err := io.ReadAll(r.Body); string(body) != "review" || err != nil {
						t.Errorf("got %q, %v", body, err)
					}
					if calls++; calls <= test.refuse {
						w.Header().Set("Retry-After", test.header)
						w.WriteHeader(test.code)
					}
					_, _ = io.WriteString(w, "{}")
				}), target(t, at("https://x:1/")), []byte("review"), 100)
				if took := time.Since(began); calls != test.calls || took != test.took || (err == nil) != (test.failed == "") || err != nil && err.Error() != test.failed {
					t.Errorf("%d calls in %v: %v", calls, took, err)
				}
			})
		})
	}
}
