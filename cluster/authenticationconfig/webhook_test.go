package authenticationconfig_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"

	"github.com/keelson-dev/keelson/authn"
	"github.com/keelson-dev/keelson/cluster"
	"github.com/keelson-dev/keelson/cluster/authenticationconfig"
)

// TestWebhook: a webhook identifies the users of tokens, and is asked again when its answer is no longer kept.
func TestWebhook(t *testing.T) {
	asked := 0
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked++
		var review authenticationv1.TokenReview
		if err := json.NewDecoder(r.Body).Decode(&review); err != nil || review.APIVersion != "authentication.k8s.io/v1beta1" {
			t.Errorf("%+v, %v", review, err)
		}
		review.Status = authenticationv1.TokenReviewStatus{Authenticated: review.Spec.Token == "good", User: authenticationv1.UserInfo{Username: "ann"}}
		_ = json.NewEncoder(w).Encode(review)
	}))
	defer s.Close()
	file := write(t, "apiVersion: v1\nkind: Config\nclusters: [{name: c, cluster: {server: '"+s.URL+"/authenticate', insecure-skip-tls-verify: true}}]\n"+
		"users: [{name: u, user: {}}]\ncontexts: [{name: x, context: {cluster: c, user: u}}]\ncurrent-context: x\n")
	for ttl, want := range map[time.Duration]int{2 * time.Minute: 1, 0: 2, time.Nanosecond: 2} {
		w := authenticationconfig.NewWebhook()
		if w.CacheTTL != 2*time.Minute {
			t.Errorf("answers are kept for %v", w.CacheTTL)
		}
		w.ConfigFile, w.CacheTTL = file, ttl
		stages, err := w.Stages()
		if err != nil || len(stages) != 1 || stages[0].Name != "webhook" {
			t.Fatalf("%+v, %v", stages, err)
		}
		authenticator := authenticatorOf(t, stages[0])
		asked = 0
		for range 2 {
			if id, err := authenticator.Authenticate(bearer("good")); err != nil || id.Name != "ann" {
				t.Errorf("%+v, %v", id, err)
			}
		}
		if asked != want {
			t.Errorf("kept for %v: asked %d times, want %d", ttl, asked, want)
		}
		if id, err := authenticator.Authenticate(bearer("bad")); err == nil || err.Error() != "invalid bearer token" {
			t.Errorf("%+v, %v", id, err)
		}
	}
	if stages, err := authenticationconfig.NewWebhook().Stages(); stages != nil || err != nil {
		t.Errorf("without a file: %+v, %v", stages, err)
	}
	for want, w := range map[string]authenticationconfig.Webhook{
		"/nowhere does not exist":                                  {ConfigFile: "/nowhere", Version: "v1"},
		file + `: unsupported authentication webhook version "v2"`: {ConfigFile: file, Version: "v2"},
	} {
		if _, err := w.Stages(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}

func authenticatorOf(t *testing.T, stage cluster.AuthenticatorStage) authn.Authenticator {
	t.Helper()
	made, err := stage.New(cluster.ServerParts{})
	if err != nil {
		t.Fatal(err)
	}
	return made
}

func bearer(token string) *http.Request {
	r := httptest.NewRequest(http.MethodGet, "/x", nil)
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	return r
}
