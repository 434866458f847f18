package remote_test

import (
	"encoding/json"
	"fmt"
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
	resource := authorizationv1.SubjectAccessReviewSpec{
		User: "ann", UID: "u", Groups: []string{"g"}, Extra: map[string]authorizationv1.ExtraValue{"x": {"y"}},
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Namespace: "ns", Verb: "list", Group: "apps", Version: "v1", Resource: "deployments", Subresource: "scale", Name: "web",
			FieldSelector: &authorizationv1.FieldSelectorAttributes{RawSelector: "a=b"}, LabelSelector: &authorizationv1.LabelSelectorAttributes{RawSelector: "c=d"},
		},
	}
	path := authorizationv1.SubjectAccessReviewSpec{User: "ann", NonResourceAttributes: &authorizationv1.NonResourceAttributes{Path: "/x", Verb: "get"}}
	for _, tt := range []struct {
		version string
		spec    authorizationv1.SubjectAccessReviewSpec
		want    string
	}{
		{"v1", resource, `{"resourceAttributes":{"namespace":"ns","verb":"list","group":"apps","version":"v1","resource":"deployments","subresource":"scale","name":"web","fieldSelector":{"rawSelector":"a=b"},"labelSelector":{"rawSelector":"c=d"}},"user":"ann","groups":["g"],"extra":{"x":["y"]},"uid":"u"}`},
		{"v1beta1", resource, `{"resourceAttributes":{"namespace":"ns","verb":"list","group":"apps","version":"v1","resource":"deployments","subresource":"scale","name":"web","fieldSelector":{"rawSelector":"a=b"},"labelSelector":{"rawSelector":"c=d"}},"user":"ann","group":["g"],"extra":{"x":["y"]},"uid":"u"}`},
		{"v1", path, `{"nonResourceAttributes":{"path":"/x","verb":"get"},"user":"ann"}`},
		{"v1beta1", path, `{"nonResourceAttributes":{"path":"/x","verb":"get"},"user":"ann"}`},
	} {
		r, err := remote.New(serve(t, func(w http.ResponseWriter, r *http.Request) {
			var got struct {
				APIVersion, Kind string
				Spec             json.RawMessage
			}
			if err := json.NewDecoder(r.Body).Decode(&got); err != nil {
				t.Error(err)
			}
			if got.APIVersion != "authorization.k8s.io/"+tt.version || got.Kind != "SubjectAccessReview" || string(got.Spec) != tt.want ||
				r.Method != http.MethodPost || r.URL.String() != "/authorize?x=y" || r.Header.Get("Authorization") != "Bearer secret" {
				t.Errorf("%s %s: %s %s %s", r.Method, r.URL, got.APIVersion, got.Kind, got.Spec)
			}
			fmt.Fprintf(w, `{"apiVersion":"authorization.k8s.io/%s","kind":"SubjectAccessReview","status":{"allowed":true,"reason":"fine"}}`, tt.version)
		}), tt.version)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := r.Review(t.Context(), &authorizationv1.SubjectAccessReview{Spec: tt.spec})
		if err != nil || !answer.Status.Allowed || answer.Status.Reason != "fine" {
			t.Errorf("%s: %+v, %v", tt.version, answer, err)
		}
	}
}

func TestRefused(t *testing.T) {
	for _, version := range []string{"v1", "v1beta1"} {
		r, err := remote.New(serve(t, func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", http.StatusForbidden) }), version)
		if err != nil {
			t.Fatal(err)
		}
		if _, err = r.Review(t.Context(), &authorizationv1.SubjectAccessReview{}); err == nil || err.Error() != `the webhook answers 403 Forbidden: "no\n"` {
			t.Error(err)
		}
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
