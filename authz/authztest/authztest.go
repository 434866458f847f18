// Package authztest is the conformance suite of authz.Authorizer: the rules for every implementation, whatever its
// policy.
package authztest

import (
	"context"
	"reflect"
	"slices"
	"sync"
	"testing"

	"github.com/keelson-dev/keelson/authn"
	"github.com/keelson-dev/keelson/authz"
)

// Case is a request with a known verdict.
type Case struct {
	Name       string
	Attributes authz.Attributes
	Want       authz.Verdict // the expected verdict
	// Reason is the exact reason expected; any is accepted if it is empty.
	Reason string
	// Fails says that an error is expected with the decision.
	Fails bool
}

// Run checks z against the contract of authz.Authorizer with cases: the verdicts are as expected and stay the same,
// under concurrent use and after the context has ended; the attributes are not changed; empty attributes cause no
// panic.
func Run(t *testing.T, z authz.Authorizer, cases []Case) {
	t.Helper()
	if len(cases) == 0 {
		t.Fatal("authztest: no cases")
	}
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) {
			before := clone(c.Attributes)
			Check(t, z, c)
			Check(t, z, c)
			if !reflect.DeepEqual(before, c.Attributes) {
				t.Errorf("the attributes were changed: %+v became %+v", before, c.Attributes)
			}
		})
	}
	t.Run("Concurrent", func(t *testing.T) {
		var wg sync.WaitGroup
		for range 8 {
			for _, c := range cases {
				wg.Go(func() { Check(t, z, c) })
			}
		}
		wg.Wait()
	})
	t.Run("ContextEnded", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		for _, c := range cases {
			if got, _ := z.Authorize(ctx, c.Attributes); got.Verdict != c.Want {
				t.Errorf("%s: verdict %v, want %v: an authorizer answers from memory", c.Name, got.Verdict, c.Want)
			}
		}
	})
	t.Run("Empty", func(t *testing.T) {
		for _, a := range []authz.Attributes{{}, {ResourceRequest: true}, {User: &authn.Identity{}}, {User: &authn.Identity{}, ResourceRequest: true}} {
			if got, _ := z.Authorize(t.Context(), a); got.Verdict < authz.NoOpinion || got.Verdict > authz.Deny {
				t.Errorf("%+v: verdict %d is none", a, got.Verdict)
			}
		}
	})
}

// Check checks z with one case.
func Check(t *testing.T, z authz.Authorizer, c Case) {
	t.Helper()
	got, err := z.Authorize(t.Context(), c.Attributes)
	why := got.Why(c.Attributes)
	if got.Verdict != c.Want {
		t.Errorf("%s: verdict %v (%s), want %v", c.Name, got.Verdict, why, c.Want)
	}
	if c.Reason != "" && why != c.Reason {
		t.Errorf("%s: reason %q, want %q", c.Name, why, c.Reason)
	}
	if (err != nil) != c.Fails {
		t.Errorf("%s: error %v", c.Name, err)
	}
}

func clone(a authz.Attributes) authz.Attributes {
	if a.User != nil {
		user := *a.User
		user.Groups = slices.Clone(user.Groups)
		a.User = &user
	}
	return a
}
