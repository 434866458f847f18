package remote_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/client-go/rest"

	"github.com/keelson-dev/keelson/authz/webhook/remote"
)

// serve returns the configuration of a client of a handler behind TLS.
func serve(t testing.TB, h http.HandlerFunc) *rest.Config {
	t.Helper()
	s := httptest.NewTLSServer(h)
	t.Cleanup(s.Close)
	return &rest.Config{Host: s.URL + "/authorize?x=y", TLSClientConfig: rest.TLSClientConfig{Insecure: true}, BearerToken: "secret"}
}

// TestReview: both versions say the same; the old one calls groups group.
func TestReview(t *testing.T) {
	for version, groups := range map[string]string{"v1": "groups", "v1beta1": "group"} {
		r, err := remote.New(serve(t, func(w http.ResponseWriter, r *http.Request) {
			var got map[string]any
			body, _ := io.ReadAll(r.Body)
			if err := json.Unmarshal(body, &got); err != nil {
				t.Error(err)
			}
			spec, _ := got["spec"].(map[string]any)
			if got["apiVersion"] != "authorization.k8s.io/"+version || got["kind"] != "SubjectAccessReview" || fmt.Sprint(spec[groups]) != "[g]" || spec["user"] != "ann" ||
				fmt.Sprint(spec["extra"]) != "map[x:[y]]" || fmt.Sprint(spec["resourceAttributes"]) != "map[resource:pods verb:get]" ||
				r.Method != http.MethodPost || r.URL.String() != "/authorize?x=y" || r.Header.Get("Authorization") != "Bearer secret" {
				t.Errorf("%s %s: %s", r.Method, r.URL, body)
			}
			fmt.Fprintf(w, `{"apiVersion":"authorization.k8s.io/%s","kind":"SubjectAccessReview","status":{"allowed":true,"reason":"fine"}}`, version)
		}), version)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := r.Review(t.Context(), &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User: "ann", Groups: []string{"g"}, Extra: map[string]authorizationv1.ExtraValue{"x": {"y"}},
			ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: "get", Resource: "pods"},
		}})
		if err != nil || !answer.Status.Allowed || answer.Status.Reason != "fine" {
			t.Errorf("%s: %+v, %v", version, answer, err)
		}
	}
}

func TestPath(t *testing.T) {
	r, err := remote.New(serve(t, func(w http.ResponseWriter, r *http.Request) {
		http.Error(w, "no", http.StatusForbidden)
	}), "v1beta1")
	if err != nil {
		t.Fatal(err)
	}
	_, err = r.Review(t.Context(), &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		NonResourceAttributes: &authorizationv1.NonResourceAttributes{Path: "/x", Verb: "get"},
	}})
	if err == nil || err.Error() != `the webhook answers 403 Forbidden: "no\n"` {
		t.Error(err)
	}
}

func TestNew(t *testing.T) {
	if _, err := remote.New(&rest.Config{Host: "https://x"}, "v2"); err == nil || err.Error() != `unsupported authorization webhook version "v2", supported versions are "v1", "v1beta1"` {
		t.Error(err)
	}
	if _, err := remote.New(&rest.Config{Host: "https://%"}, "v1"); err == nil || !strings.Contains(err.Error(), "invalid URL escape") {
		t.Error(err)
	}
	if got := remote.Longest(time.Second); got != 5*time.Second+4062500*time.Microsecond {
		t.Error(got)
	}
}

func ExampleNew() {
	r, err := remote.New(&rest.Config{Host: "https://policy.example.com/authorize", Timeout: 3 * time.Second}, "v1")
	fmt.Println(r != nil, err)
	// Output: true <nil>
}
