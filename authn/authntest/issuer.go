package authntest

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/keelson-dev/keelson/authn"
)

// Issued is a set of claims for a token and the identity expected for it. The claims have an ID and an audience of the
// server, and are valid now.
type Issued struct {
	Claims authn.Claims
	Want   authn.Identity // the identity expected for the token
}

// IssuerSamples are claims with a known outcome. Good must not be empty.
type IssuerSamples struct {
	// Good claims are valid.
	Good []Issued
	// Bad claims contradict themselves.
	Bad []authn.Claims
}

// RunIssuer checks an issuer, together with an authenticator of its tokens, against the contract of authn.Issuer.
func RunIssuer(t *testing.T, issuer authn.Issuer, auth authn.Authenticator, s IssuerSamples) {
	t.Helper()
	if len(s.Good) == 0 {
		t.Fatal("authntest: no good claims")
	}
	k := kit{issuer, auth}
	t.Run("Good", func(t *testing.T) {
		var wg sync.WaitGroup
		for _, sample := range s.Good {
			for range 4 {
				wg.Go(func() { k.good(t, sample) })
			}
		}
		wg.Wait()
	})
	t.Run("Bad", func(t *testing.T) {
		for _, c := range s.Bad {
			if token, err := issuer.Issue(t.Context(), c); err == nil || token != "" {
				t.Errorf("claims %+v were signed (error %v)", c, err)
			}
		}
	})
	t.Run("Unique", func(t *testing.T) {
		c := s.Good[0].Claims
		c.ID = ""
		first, second := k.issue(t, c), k.issue(t, c)
		if first == second {
			t.Error("two tokens are one")
		}
	})
	t.Run("Tampered", func(t *testing.T) { k.tampered(t, s.Good[0].Claims) })
	t.Run("Expired", func(t *testing.T) {
		c := s.Good[0].Claims
		c.IssuedAt, c.Expires = time.Now().Add(-3*time.Hour), time.Now().Add(-time.Hour)
		k.refuse(t, k.issue(t, c))
		c.IssuedAt, c.Expires = time.Now().Add(time.Hour), time.Now().Add(2*time.Hour)
		k.refuse(t, k.issue(t, c))
	})
	t.Run("Audience", func(t *testing.T) {
		c := s.Good[0].Claims
		c.Audiences = []string{"somebody else"}
		token := k.issue(t, c)
		k.refuse(t, token)
		r := bearer(token)
		id, err := ask(t, auth, r.WithContext(authn.WithAudiences(r.Context(), []string{"x", "somebody else"})))
		if err != nil || len(id.Audiences) != 1 || id.Audiences[0] != "somebody else" {
			t.Errorf("asked for its audience: %+v, %v", id, err)
		}
	})
}

type kit struct {
	issuer authn.Issuer
	auth   authn.Authenticator
}

func (k kit) issue(t *testing.T, c authn.Claims) string {
	t.Helper()
	token, err := k.issuer.Issue(t.Context(), c)
	if err != nil {
		t.Fatalf("claims %+v: %v", c, err)
	}
	return token
}

func (k kit) good(t *testing.T, sample Issued) {
	t.Helper()
	token, err := k.issuer.Issue(t.Context(), sample.Claims)
	if err != nil {
		t.Errorf("claims %+v: %v", sample.Claims, err)
		return
	}
	for range 2 {
		if id, err := k.auth.Authenticate(bearer(token)); err != nil || !equal(*id, sample.Want) {
			t.Errorf("got %+v, %v; want %+v", id, err, sample.Want)
		}
	}
}

// tampered changes each part of a token.
func (k kit) tampered(t *testing.T, c authn.Claims) {
	token := k.issue(t, c)
	if _, err := k.auth.Authenticate(bearer(token)); err != nil {
		t.Fatal(err) // from now on it may be cached as good
	}
	parts := strings.Split(token, ".")
	for i, part := range parts {
		changed := append([]string{}, parts...)
		swap := byte('A')
		if part[len(part)/2] == swap {
			swap = 'B'
		}
		changed[i] = part[:len(part)/2] + string(swap) + part[len(part)/2+1:]
		k.refuse(t, strings.Join(changed, "."))
	}
	k.refuse(t, strings.Join(parts[:len(parts)-1], ".")+".")
}

// refuse checks that a token is refused, and that the error does not contain it.
func (k kit) refuse(t *testing.T, token string) {
	t.Helper()
	r := bearer(token)
	id, err := ask(t, k.auth, r)
	if id != nil || err == nil || errors.Is(err, authn.ErrNoCredentials) {
		t.Errorf("got %+v, %v; want an error other than ErrNoCredentials", id, err)
	}
	withoutSecret(t, r, err)
}

func bearer(token string) *http.Request {
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.Header.Set("Authorization", "Bearer "+token)
	return r
}
