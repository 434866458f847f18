package token_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"testing"

	"github.com/keelson-dev/keelson/authn"
	"github.com/keelson-dev/keelson/authn/token"
)

func says(id *authn.Identity, err error) token.Verifier {
	return token.Func(func(context.Context, string) (*authn.Identity, error) { return id, err })
}

func TestUnion(t *testing.T) {
	ann, bob := &authn.Identity{Name: "ann"}, &authn.Identity{Name: "bob"}
	expired, revoked := errors.New("expired"), errors.New("revoked")
	foreign := fmt.Errorf("%w: another's", authn.ErrNoCredentials)
	abstains := says(nil, authn.ErrNoCredentials)
	for name, c := range map[string]struct {
		of   []token.Verifier
		want *authn.Identity
		err  string
	}{
		"nobody":                               {err: "no credentials"},
		"all abstain":                          {of: []token.Verifier{abstains, abstains}, err: "no credentials"},
		"the first success":                    {of: []token.Verifier{abstains, says(ann, nil), says(bob, nil)}, want: ann},
		"a success after a failure":            {of: []token.Verifier{says(nil, expired), says(bob, nil)}, want: bob},
		"nobody is no success":                 {of: []token.Verifier{says(nil, nil), says(bob, nil)}, want: bob},
		"nor is it a failure":                  {of: []token.Verifier{says(nil, nil)}, err: "no credentials"},
		"an identity with an error is none":    {of: []token.Verifier{says(ann, expired), says(bob, nil)}, want: bob},
		"every failure":                        {of: []token.Verifier{says(nil, expired), abstains, says(nil, revoked)}, err: "expired\nrevoked"},
		"a failure before what others abstain": {of: []token.Verifier{says(nil, foreign), says(nil, expired)}, err: "expired"},
		"why they abstain":                     {of: []token.Verifier{says(nil, foreign), abstains, says(nil, foreign)}, err: "no credentials: another's\nno credentials: another's"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := token.Union(c.of...).Verify(t.Context(), "x")
			if got != c.want || (err == nil) != (c.err == "") || err != nil && err.Error() != c.err {
				t.Errorf("got %v, %v", got, err)
			}
		})
	}
}

// The verifiers are those that it was made of.
func TestUnionKeepsItsVerifiers(t *testing.T) {
	of := []token.Verifier{says(&authn.Identity{Name: "ann"}, nil)}
	u := token.Union(of...)
	of[0] = says(nil, authn.ErrNoCredentials)
	if id, err := u.Verify(t.Context(), "x"); err != nil || id.Name != "ann" {
		t.Errorf("got %v, %v", id, err)
	}
}

// An identity beside an error is nobody's.
func TestIdentityWithError(t *testing.T) {
	revoked := errors.New("revoked")
	if id, err := token.New(says(&authn.Identity{Name: "ann"}, revoked)).Authenticate(request("Bearer x")); id != nil || !errors.Is(err, revoked) {
		t.Errorf("got %v, %v", id, err)
	}
}

// What is done to an identity afterwards changes no answer; a token of nobody is known and nobody's.
func TestStaticKeepsItsIdentities(t *testing.T) {
	of := func() *authn.Identity {
		return &authn.Identity{Name: "ann", Groups: []string{"dev"}, Extra: map[string][]string{"k": {"v"}}, Audiences: []string{"api"}}
	}
	ann := of()
	v := token.Static(map[string]*authn.Identity{"s3cret": ann, "nobody": nil})
	ann.Groups[0], ann.Extra["k"], ann.Audiences[0] = "x", nil, "x"
	if id, err := v.Verify(t.Context(), "s3cret"); err != nil || !reflect.DeepEqual(id, of()) {
		t.Errorf("got %v, %v", id, err)
	}
	if id, err := v.Verify(t.Context(), "nobody"); id != nil || err != nil {
		t.Errorf("got %v, %v", id, err)
	}
	if id, err := v.Verify(t.Context(), "other"); id != nil || !errors.Is(err, authn.ErrNoCredentials) {
		t.Errorf("got %v, %v", id, err)
	}
}
