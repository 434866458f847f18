package remote_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/client-go/rest"

	"github.com/keelson-dev/keelson/authn"
	"github.com/keelson-dev/keelson/authn/webhook"
	"github.com/keelson-dev/keelson/authn/webhook/remote"
)

// TestReview: a server knows a token, another it does not, and its errors do not tell the token.
func TestReview(t *testing.T) {
	for _, version := range []string{"v1", "v1beta1"} {
		asked := 0
		s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			asked++
			var review authenticationv1.TokenReview
			if err := json.NewDecoder(r.Body).Decode(&review); err != nil || review.APIVersion != "authentication.k8s.io/"+version || review.Kind != "TokenReview" {
				t.Errorf("%+v, %v", review, err)
			}
			if review.Spec.Token == "broken" {
				http.Error(w, review.Spec.Token, http.StatusBadRequest)
				return
			}
			answer := authenticationv1.TokenReview{TypeMeta: review.TypeMeta, Status: authenticationv1.TokenReviewStatus{
				Authenticated: review.Spec.Token == "good", User: authenticationv1.UserInfo{Username: "ann"}, Error: "who is that?",
			}}
			_ = json.NewEncoder(w).Encode(answer)
		}))
		defer s.Close()
		r, err := remote.New(&rest.Config{Host: s.URL + "/authenticate", TLSClientConfig: rest.TLSClientConfig{Insecure: true}}, version)
		if err != nil {
			t.Fatal(err)
		}
		v := webhook.New(r, webhook.Options{})
		for range 2 {
			if id, err := v.Verify(t.Context(), "good"); err != nil || id.Name != "ann" {
				t.Errorf("%+v, %v", id, err)
			}
			if _, err := v.Verify(t.Context(), "bad"); !errors.Is(err, authn.ErrNoCredentials) || !strings.Contains(err.Error(), "who is that?") {
				t.Error(err)
			}
		}
		if asked != 2 {
			t.Errorf("asked %d times: success and failure are cached", asked)
		}
		for want := 3; want < 5; want++ {
			if _, err := v.Verify(t.Context(), "broken"); !errors.Is(err, webhook.ErrReview) || !strings.Contains(err.Error(), "the webhook answers 400 Bad Request") || strings.Contains(err.Error(), "broken") || asked != want {
				t.Errorf("%v after %d questions: what could not be asked is not cached", err, asked)
			}
		}
	}
}

func TestNew(t *testing.T) {
	if _, err := remote.New(&rest.Config{Host: "https://x"}, "v2"); err == nil || err.Error() != `unsupported authentication webhook version "v2", supported versions are "v1", "v1beta1"` {
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
	r, err := remote.New(&rest.Config{Host: "https://tokens.example.com/authenticate"}, "v1")
	fmt.Println(r != nil, err)
	// Output: true <nil>
}
