// Package authntest has the conformance suites of the contracts of authn: Run for an authn.Authenticator of any kind,
// and RunIssuer for an authn.Issuer with the authenticator of its tokens.
package authntest

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"sync"
	"testing"

	"github.com/keelson-dev/keelson/authn"
)

// Sample is a request and the expected identity.
type Sample struct {
	Request *http.Request
	Want    authn.Identity // the expected identity
}

// Samples are requests with known answers. Good must not be empty.
type Samples struct {
	// Good requests have valid credentials.
	Good []Sample
	// Bad requests have invalid credentials of the kind under test.
	Bad []*http.Request
	// Foreign requests have only credentials of another kind.
	Foreign []*http.Request
}

// Run checks auth against the contract of authn.Authenticator.
func Run(t *testing.T, auth authn.Authenticator, s Samples) {
	t.Helper()
	if len(s.Good) == 0 {
		t.Fatal("authntest: no good sample")
	}
	t.Run("Good", func(t *testing.T) {
		for _, sample := range s.Good {
			good(t, auth, sample)
		}
	})
	t.Run("Bad", func(t *testing.T) {
		for _, r := range s.Bad {
			id, err := ask(t, auth, r)
			if id != nil || err == nil || errors.Is(err, authn.ErrNoCredentials) {
				t.Errorf("bad credentials give %v, %v; want an error other than ErrNoCredentials", id, err)
			}
			withoutSecret(t, r, err)
		}
	})
	t.Run("None", func(t *testing.T) {
		none := append([]*http.Request{httptest.NewRequest(http.MethodGet, "/", nil), {}}, s.Foreign...)
		for _, r := range none {
			if id, err := ask(t, auth, r); id != nil || !errors.Is(err, authn.ErrNoCredentials) {
				t.Errorf("a request without credentials of this kind gives %v, %v; want ErrNoCredentials", id, err)
			}
		}
	})
	t.Run("Concurrent", func(t *testing.T) { concurrent(t, auth, s) })
}

func good(t *testing.T, auth authn.Authenticator, sample Sample) {
	t.Helper()
	id, err := ask(t, auth, sample.Request)
	if err != nil || id == nil || !equal(*id, sample.Want) {
		t.Errorf("got %+v, %v; want %+v", id, err, sample.Want)
		return
	}
	again, err := ask(t, auth, sample.Request)
	if err != nil || again == nil || !equal(*again, sample.Want) {
		t.Errorf("the second time: got %+v, %v; want %+v", again, err, sample.Want)
	}
}

// withoutSecret checks that an error does not contain the secret in the request.
func withoutSecret(t *testing.T, r *http.Request, err error) {
	t.Helper()
	_, secret, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	_, password, _ := r.BasicAuth()
	for _, s := range []string{secret, password} {
		if len(s) > 3 && err != nil && strings.Contains(err.Error(), s) {
			t.Errorf("the error tells the secret: %v", err)
		}
	}
}

func concurrent(t *testing.T, auth authn.Authenticator, s Samples) {
	var wg sync.WaitGroup
	for range 8 {
		for _, sample := range s.Good {
			wg.Go(func() {
				if id, err := auth.Authenticate(sample.Request.Clone(sample.Request.Context())); err != nil || id == nil || !equal(*id, sample.Want) {
					t.Errorf("got %+v, %v; want %+v", id, err, sample.Want)
				}
			})
		}
		for _, r := range s.Bad {
			wg.Go(func() {
				if id, err := auth.Authenticate(r.Clone(r.Context())); id != nil || err == nil {
					t.Errorf("bad credentials give %v, %v", id, err)
				}
			})
		}
	}
	wg.Wait()
}

// ask authenticates r and checks that r is unchanged.
func ask(t *testing.T, auth authn.Authenticator, r *http.Request) (*authn.Identity, error) {
	t.Helper()
	header, url := r.Header.Clone(), r.URL
	id, err := auth.Authenticate(r)
	if !reflect.DeepEqual(header, r.Header) || url != r.URL {
		t.Errorf("the request was changed: headers %v became %v", header, r.Header)
	}
	return id, err
}

// equal treats an empty list like a missing one.
func equal(a, b authn.Identity) bool {
	if len(a.Groups)+len(b.Groups) == 0 {
		a.Groups, b.Groups = nil, nil
	}
	if len(a.Extra)+len(b.Extra) == 0 {
		a.Extra, b.Extra = nil, nil
	}
	if len(a.Audiences)+len(b.Audiences) == 0 {
		a.Audiences, b.Audiences = nil, nil
	}
	return reflect.DeepEqual(a, b)
}
