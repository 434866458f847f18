package token_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/keelson-dev/keelson/authn"
	"github.com/keelson-dev/keelson/authn/authntest"
	"github.com/keelson-dev/keelson/authn/token"
)

func request(authorization string) *http.Request {
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.Header.Set("Authorization", authorization)
	return r
}

func TestContract(t *testing.T) {
	ann := &authn.Identity{Name: "ann", UID: "1", Groups: []string{"dev"}, Extra: map[string][]string{"k": {"v"}}}
	auth := token.New(token.Static(map[string]*authn.Identity{"s3cret": ann, "": ann}))
	want := authn.Identity{Name: "ann", UID: "1", Groups: []string{"dev"}, Extra: map[string][]string{"k": {"v"}}}
	ann.Groups[0] = "changed after the fact"
	authntest.Run(t, auth, authntest.Samples{
		Good: []authntest.Sample{
			{Request: request("Bearer s3cret"), Want: want},
			{Request: request("bEARER s3cret"), Want: want},
			{Request: request("  Bearer s3cret  "), Want: want},
			{Request: request("Bearer s3cret and more"), Want: want},
		},
		Bad:     []*http.Request{request("Bearer s3cre"), request("Bearer s3cret2"), request("Bearer a b")},
		Foreign: []*http.Request{request("Basic s3cret"), request("Bearer"), request("Bearer "), request("Bearer  s3cret"), request("s3cret"), request("")},
	})
}

func TestErrors(t *testing.T) {
	expired := errors.New("token expired")
	judge := token.Func(func(_ context.Context, tok string) (*authn.Identity, error) {
		if tok == "old" {
			return nil, expired
		}
		return nil, authn.ErrNoCredentials
	})
	static := token.Static(map[string]*authn.Identity{"s3cret": {Name: "ann"}})
	auth := token.New(token.Union(judge, static))
	if _, err := auth.Authenticate(request("Bearer nobody's")); !errors.Is(err, token.ErrInvalid) || err.Error() != "invalid bearer token" {
		t.Errorf("unknown token: %v", err)
	}
	if _, err := auth.Authenticate(request("Bearer old")); !errors.Is(err, expired) {
		t.Errorf("expired token: %v", err)
	}
	if id, err := auth.Authenticate(request("Bearer s3cret")); err != nil || id.Name != "ann" {
		t.Errorf("good token: %v, %v", id, err)
	}
	foreign := fmt.Errorf("%w: issuer %q is another's", authn.ErrNoCredentials, "https://x")
	abstains := token.Func(func(context.Context, string) (*authn.Identity, error) { return nil, foreign })
	_, err := token.New(token.Union(static, abstains)).Authenticate(request("Bearer x"))
	if !errors.Is(err, token.ErrInvalid) || errors.Is(err, authn.ErrNoCredentials) || err.Error() != `invalid bearer token: no credentials: issuer "https://x" is another's` {
		t.Errorf("a token that a verifier takes for another's: %v", err)
	}
	broken := token.New(token.Func(func(context.Context, string) (*authn.Identity, error) { return nil, nil }))
	if id, err := broken.Authenticate(request("Bearer x")); id != nil || !errors.Is(err, token.ErrInvalid) {
		t.Errorf("nobody became %v, %v", id, err)
	}
}

func FuzzFromHeader(f *testing.F) {
	for _, seed := range []string{"", "Bearer a", "bearer  a", "Basic x", " Bearer\ta ", "Bearer a b c"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, value string) {
		tok, ok := token.FromHeader(http.Header{"Authorization": {value}})
		if ok != (tok != "") {
			t.Errorf("%q: token %q but ok is %v", value, tok, ok)
		}
		for _, c := range tok {
			if c == ' ' {
				t.Errorf("%q: token %q has a space", value, tok)
			}
		}
	})
}

// TestUnionOfNobody: a Verifier that says neither who it is nor why not vouches for nobody, and ends nothing.
func TestUnionOfNobody(t *testing.T) {
	nobody := token.Func(func(context.Context, string) (*authn.Identity, error) { return nil, nil })
	ann := token.Static(map[string]*authn.Identity{"t": {Name: "ann"}})
	if id, err := token.Union(nobody, ann).Verify(t.Context(), "t"); err != nil || id == nil || id.Name != "ann" {
		t.Errorf("%v, %v", id, err)
	}
	if id, err := token.Union(nobody, nobody).Verify(t.Context(), "t"); id != nil || !errors.Is(err, authn.ErrNoCredentials) {
		t.Errorf("%v, %v", id, err)
	}
}
