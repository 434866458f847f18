package inprocess_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	registrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/admission/webhook"
	"github.com/keelson-dev/keelson/admission/webhook/inprocess"
)

func service(namespace, name string, port *int32, path *string) *registrationv1.WebhookClientConfig {
	return &registrationv1.WebhookClientConfig{Service: &registrationv1.ServiceReference{Namespace: namespace, Name: name, Port: port, Path: path}}
}

// called returns a Caller with one handler, for the service hook in ns.
func called(handler http.HandlerFunc, o inprocess.Options) *inprocess.Caller {
	return inprocess.New(inprocess.Services(map[types.NamespacedName]http.Handler{{Namespace: "ns", Name: "hook"}: handler}), o)
}

func TestCall(t *testing.T) {
	for want, to := range map[string]*registrationv1.WebhookClientConfig{
		"hook.ns.svc:443 /":       service("ns", "hook", nil, nil),
		"hook.ns.svc:8443 /a/b":   service("ns", "hook", new(int32(8443)), new("/a/b")),
		"example.com:8443 /u":     {URL: new("https://example.com:8443/u")},
		"example.com /any/where ": {URL: new("https://example.com/any/where/")},
	} {
		handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, err := io.ReadAll(r.Body)
			if got := r.Host + " " + r.URL.Path; got != strings.TrimSpace(want) || string(body) != "review" || err != nil || r.Method != http.MethodPost ||
				r.RequestURI != r.URL.Path+"?timeout=30s" || r.RemoteAddr == "" {
				t.Errorf("%s %s from %q with %q, %v; want %s", r.Method, got, r.RemoteAddr, body, err, want)
			}
			fmt.Fprint(w, "an ")
			fmt.Fprint(w, "answer")
		})
		c := inprocess.New(func(*registrationv1.WebhookClientConfig) http.Handler { return handler }, inprocess.Options{})
		if body, err := c.Call(t.Context(), to, []byte("review")); string(body) != "an answer" || err != nil {
			t.Errorf("%q, %v", body, err)
		}
	}
	c := called(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain")
		w.WriteHeader(http.StatusForbidden)
		w.Header().Set("Content-Type", "application/json") // too late
		w.WriteHeader(http.StatusOK)
		fmt.Fprint(w, "no")
	}, inprocess.Options{})
	if _, err := c.Call(t.Context(), service("ns", "hook", nil, nil), nil); err == nil || err.Error() != "no" {
		t.Error(err)
	}
	late := called(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, "fine")
		w.Header().Set("Content-Type", "bad/;;")
	}, inprocess.Options{})
	if body, err := late.Call(t.Context(), service("ns", "hook", nil, nil), nil); string(body) != "fine" || err != nil {
		t.Errorf("%q, %v", body, err)
	}
	silent := called(func(http.ResponseWriter, *http.Request) {}, inprocess.Options{})
	if _, err := silent.Call(t.Context(), service("ns", "hook", nil, nil), nil); err == nil || err.Error() != "0-length response with status code: 200 and content type: application/json" {
		t.Error(err)
	}
}

// TestElse: what has no handler goes elsewhere.
func TestElse(t *testing.T) {
	fine := func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "here") }
	elsewhere := webhook.CallerFunc(func(context.Context, *registrationv1.WebhookClientConfig, []byte) ([]byte, error) {
		return []byte("there"), nil
	})
	for want, list := range map[string][]*registrationv1.WebhookClientConfig{
		"here":  {service("ns", "hook", nil, nil)},
		"there": {service("other", "hook", nil, nil), service("ns", "other", nil, nil), {URL: new("https://hook.ns.svc")}},
	} {
		for _, to := range list {
			if body, err := called(fine, inprocess.Options{Else: elsewhere}).Call(t.Context(), to, nil); string(body) != want || err != nil {
				t.Errorf("%v: %q, %v", to, body, err)
			}
			_, err := called(fine, inprocess.Options{}).Call(t.Context(), to, nil)
			if errors.Is(err, webhook.ErrClient) != (want == "there") {
				t.Errorf("%v: %v", to, err)
			}
		}
	}
	bad := inprocess.New(func(*registrationv1.WebhookClientConfig) http.Handler { return http.HandlerFunc(fine) }, inprocess.Options{})
	if _, err := bad.Call(t.Context(), &registrationv1.WebhookClientConfig{URL: new("https://%")}, nil); !errors.Is(err, webhook.ErrClient) {
		t.Error(err)
	}
	if _, err := bad.Call(t.Context(), &registrationv1.WebhookClientConfig{}, nil); !errors.Is(err, webhook.ErrClient) {
		t.Error(err)
	}
}

// TestHostile: a handler fails its call, whatever it does.
func TestHostile(t *testing.T) {
	t.Run("panic", func(t *testing.T) {
		c := called(func(http.ResponseWriter, *http.Request) { panic("oh") }, inprocess.Options{})
		if _, err := c.Call(t.Context(), service("ns", "hook", nil, nil), nil); err == nil || !strings.HasSuffix(err.Error(), "the webhook panicked: oh") {
			t.Error(err)
		}
	})
	t.Run("size", func(t *testing.T) {
		for size, want := range map[int]string{100: "", 101: "the response is larger than 100 bytes", 1001: "the response is larger than 100 bytes"} {
			written := 0
			c := called(func(w http.ResponseWriter, _ *http.Request) {
				for range size / 50 {
					n, _ := w.Write(make([]byte, 50))
					written += n
				}
				n, err := w.Write(make([]byte, size%50))
				if written += n; (err == nil) != (size <= 101) {
					t.Errorf("%d bytes: %v", size, err)
				}
			}, inprocess.Options{MaxAnswer: 100})
			body, err := c.Call(t.Context(), service("ns", "hook", nil, nil), nil)
			if (err == nil) != (want == "") || err != nil && err.Error() != want || err == nil && len(body) != size || written > 101 {
				t.Errorf("%d bytes: wrote %d, got %d, %v", size, written, len(body), err)
			}
		}
		c := called(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, 9<<20)) }, inprocess.Options{})
		if _, err := c.Call(t.Context(), service("ns", "hook", nil, nil), nil); err == nil || err.Error() != "the response is larger than 8388608 bytes" {
			t.Error(err)
		}
	})
	t.Run("slow", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			ended := make(chan struct{})
			c := called(func(w http.ResponseWriter, r *http.Request) {
				<-r.Context().Done()
				time.Sleep(time.Minute) // it takes no notice
				fmt.Fprint(w, "late")
				close(ended)
			}, inprocess.Options{})
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
			defer cancel()
			began := time.Now()
			_, err := c.Call(ctx, service("ns", "hook", nil, nil), nil)
			if took := time.Since(began); took != 3*time.Second || !errors.Is(err, context.DeadlineExceeded) || err.Error() != `Post "https://hook.ns.svc:443/?timeout=3s": context deadline exceeded` {
				t.Errorf("%v after %v", err, took)
			}
			<-ended
		})
	})
}

func ExampleServices() {
	handler := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "an AdmissionReview") })
	caller := inprocess.New(inprocess.Services(map[types.NamespacedName]http.Handler{{Namespace: "system", Name: "policy"}: handler}), inprocess.Options{})
	answer, err := caller.Call(context.Background(), &registrationv1.WebhookClientConfig{
		Service: &registrationv1.ServiceReference{Namespace: "system", Name: "policy"},
	}, []byte("{}"))
	fmt.Println(string(answer), err)
	// Output: an AdmissionReview <nil>
}
