package signer_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/keelson-dev/keelson/authn"
	"github.com/keelson-dev/keelson/authz"
	"github.com/keelson-dev/keelson/authz/signer"
)

func TestAllowed(t *testing.T) {
	user := &authn.Identity{Name: "ann"}
	for _, tt := range []struct {
		allowed string // the resource
		user    *authn.Identity
		err     error
		asked   []string
		want    bool
	}{
		{"example.com/ca", user, nil, []string{"example.com/ca"}, true},
		{"example.com/*", user, nil, []string{"example.com/ca", "example.com/*"}, true},
		{"example.com/*", user, errors.New("some rules are missing"), []string{"example.com/ca", "example.com/*"}, true},
		{"example.org/*", user, nil, []string{"example.com/ca", "example.com/*"}, false},
		{"example.com/ca", nil, nil, nil, false},
	} {
		var asked []string
		z := authz.Func(func(_ context.Context, a authz.Attributes) (authz.Decision, error) {
			if a.User != tt.user || a.Verb != "sign" || !a.ResourceRequest || a.Group != "certificates.k8s.io" || a.Version != "*" || a.Resource != "signers" {
				t.Errorf("asked for %+v", a)
			}
			asked = append(asked, a.Name)
			if a.Name == tt.allowed {
				return authz.Decision{Verdict: authz.Allow}, tt.err
			}
			return authz.Decision{Verdict: authz.Deny}, tt.err
		})
		if got := signer.Allowed(t.Context(), z, tt.user, signer.Sign, "example.com/ca"); got != tt.want || !slices.Equal(asked, tt.asked) {
			t.Errorf("%s: %t after %q", tt.allowed, got, asked)
		}
	}
}

func Example() {
	z := authz.Func(func(_ context.Context, a authz.Attributes) (authz.Decision, error) {
		if a.Verb == "approve" && a.Name == "example.com/*" {
			return authz.Decision{Verdict: authz.Allow}, nil
		}
		return authz.Decision{}, nil
	})
	ann := &authn.Identity{Name: "ann"}
	fmt.Println(signer.Allowed(context.Background(), z, ann, signer.Approve, "example.com/ca"),
		signer.Allowed(context.Background(), z, ann, signer.Sign, "example.com/ca"))
	// Output: true false
}
