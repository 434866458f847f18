package webhook_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"

	"github.com/keelson-dev/keelson/authn"
	"github.com/keelson-dev/keelson/authn/authntest"
	"github.com/keelson-dev/keelson/authn/token"
	"github.com/keelson-dev/keelson/authn/webhook"
)

// server knows the token "good", for the audiences "api" and "node".
type server struct {
	asked int
	err   error
}

func (s *server) Review(_ context.Context, r *authenticationv1.TokenReview) (*authenticationv1.TokenReview, error) {
	s.asked++
	if s.err != nil {
		return nil, s.err
	}
	answer := &authenticationv1.TokenReview{}
	switch r.Spec.Token {
	case "good":
		answer.Status = authenticationv1.TokenReviewStatus{
			Authenticated: true, Audiences: []string{"api", "node"},
			User: authenticationv1.UserInfo{Username: "jane", UID: "1", Groups: []string{"dev"}, Extra: map[string]authenticationv1.ExtraValue{"a": {"b"}}},
		}
	case "old-one":
		answer.Status.Error = "token has expired"
	}
	return answer, nil
}

func bearing(token string) *http.Request {
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.Header.Set("Authorization", "Bearer "+token)
	return r
}

func TestContract(t *testing.T) {
	basic := httptest.NewRequest(http.MethodGet, "/", nil)
	basic.SetBasicAuth("jane", "secret")
	authntest.Run(t, token.New(webhook.New(&server{}, webhook.Options{})), authntest.Samples{
		Good: []authntest.Sample{{Request: bearing("good"), Want: authn.Identity{
			Name: "jane", UID: "1", Groups: []string{"dev"}, Extra: map[string][]string{"a": {"b"}}, Audiences: []string{"api", "node"},
		}}},
		Bad:     []*http.Request{bearing("bad"), bearing("old-one")},
		Foreign: []*http.Request{basic},
	})
}

func TestAnswers(t *testing.T) {
	for name, c := range map[string]struct {
		token     string
		audiences []string
		asked     []string
		err       error
		want      string // of the error
	}{
		"good":             {token: "good"},
		"audience":         {token: "good", audiences: []string{"node", "other"}},
		"audience asked":   {token: "good", audiences: []string{"other"}, asked: []string{"api"}},
		"another audience": {token: "good", audiences: []string{"other"}, want: "not for these audiences"},
		"unknown":          {token: "x", want: "no credentials"},
		"expired":          {token: "old-one", want: "token has expired"},
		"many words":       {token: "good", err: errors.New(strings.Repeat("é", 1000)), want: "token review failed: " + strings.Repeat("é", 512) + "..."},
		"enough words":     {token: "good", err: errors.New(strings.Repeat("é", 512)), want: "token review failed: " + strings.Repeat("é", 512)},
		"no server":        {token: "good", err: errors.New("connection refused"), want: "token review failed: connection refused"},
	} {
		t.Run(name, func(t *testing.T) {
			v := webhook.New(&server{err: c.err}, webhook.Options{Audiences: c.audiences})
			ctx := t.Context()
			if c.asked != nil {
				ctx = authn.WithAudiences(ctx, c.asked)
			}
			id, err := v.Verify(ctx, c.token)
			if c.want == "" && (err != nil || id.Name != "jane") || c.want != "" && (err == nil || !strings.HasSuffix(err.Error(), c.want)) {
				t.Errorf("%v, %v", id, err)
			}
			if failed := errors.Is(err, webhook.ErrReview); failed != (c.err != nil) || err != nil && errors.Is(err, authn.ErrNoCredentials) == failed {
				t.Errorf("error %v", err)
			}
		})
	}
}

// TestKept: answers are kept for a while, failures are not.
func TestKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{}
		v := webhook.New(s, webhook.Options{})
		ask := func(token string) {
			_, _ = v.Verify(t.Context(), token)
		}
		for range 3 {
			ask("good")
			ask("x")
		}
		if s.asked != 2 {
			t.Errorf("asked %d times", s.asked)
		}
		time.Sleep(2*time.Minute + time.Second)
		ask("good")
		if s.asked != 3 {
			t.Errorf("asked %d times after two minutes", s.asked)
		}
		s.err = errors.New("down")
		ask("y")
		ask("y")
		if s.asked != 5 {
			t.Errorf("asked %d times while it is down", s.asked)
		}
		s = &server{}
		v = webhook.New(s, webhook.Options{Keep: -1})
		ask("good")
		ask("good")
		if s.asked != 2 {
			t.Errorf("asked %d times without keeping", s.asked)
		}
	})
}

// TestSilentServer: a server that says nothing of audiences, as one that knows of none does, vouches for none; one that says
// nothing at all vouches for nobody.
func TestSilentServer(t *testing.T) {
	answer := &authenticationv1.TokenReview{Status: authenticationv1.TokenReviewStatus{Authenticated: true, User: authenticationv1.UserInfo{Username: "jane"}}}
	reviewer := webhook.ReviewerFunc(func(context.Context, *authenticationv1.TokenReview) (*authenticationv1.TokenReview, error) {
		return answer, nil
	})
	if id, err := webhook.New(reviewer, webhook.Options{Audiences: []string{"api"}}).Verify(t.Context(), "good"); !errors.Is(err, authn.ErrNoCredentials) {
		t.Errorf("for an audience: %v, %v", id, err)
	}
	if id, err := webhook.New(reviewer, webhook.Options{}).Verify(t.Context(), "good"); err != nil || id.Name != "jane" {
		t.Errorf("for whomever: %v, %v", id, err)
	}
	answer = nil
	if id, err := webhook.New(reviewer, webhook.Options{}).Verify(t.Context(), "good"); !errors.Is(err, webhook.ErrReview) {
		t.Errorf("no answer: %v, %v", id, err)
	}
}

// TestKeptForAnAudience: what was found out for one audience is not the answer for another.
func TestKeptForAnAudience(t *testing.T) {
	v := webhook.New(&server{}, webhook.Options{})
	for range 2 {
		for audience, good := range map[string]bool{"api": true, "other": false} {
			if _, err := v.Verify(authn.WithAudiences(t.Context(), []string{audience}), "good"); (err == nil) != good {
				t.Errorf("for %s: %v", audience, err)
			}
		}
		if _, err := v.Verify(t.Context(), "bad"); !errors.Is(err, authn.ErrNoCredentials) {
			t.Errorf("another token: %v", err)
		}
	}
}

// TestDeadline: a review that gets no answer ends after ten seconds, or after what was set.
func TestDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for set, want := range map[time.Duration]time.Duration{0: 10 * time.Second, -1: 10 * time.Second, time.Second: time.Second} {
			start := time.Now()
			_, err := webhook.New(webhook.ReviewerFunc(func(ctx context.Context, _ *authenticationv1.TokenReview) (*authenticationv1.TokenReview, error) {
				<-ctx.Done()
				return nil, ctx.Err()
			}), webhook.Options{Timeout: set}).Verify(t.Context(), "good")
			if took := time.Since(start); took != want || !errors.Is(err, webhook.ErrReview) || !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("a timeout of %v: %v after %v, want %v", set, err, took, want)
			}
		}
	})
}

// TestAudiencesStay: what becomes of a caller's list afterwards changes nobody's audiences.
func TestAudiencesStay(t *testing.T) {
	mine := []string{"api"}
	v := webhook.New(&server{}, webhook.Options{Audiences: mine})
	mine[0] = "other"
	if _, err := v.Verify(t.Context(), "good"); err != nil {
		t.Error(err)
	}
}
