// Package signer decides who may approve, sign or attest for a signer of certificates: that is allowed on the resource
// signers of the group certificates.k8s.io, by the signer's name or by all names of its domain.
//
// It keeps no state. What could not be evaluated is not allowed.
package signer

import (
	"context"
	"strings"

	"github.com/keelson-dev/keelson/authn"
	"github.com/keelson-dev/keelson/authz"
)

// Verb is what is done in the name of a signer.
type Verb string

// The verbs of upstream.
const (
	Approve Verb = "approve"
	Sign    Verb = "sign"
	Attest  Verb = "attest"
)

// Allowed reports whether the authorizer lets the user do something in the name of a signer, such as example.com/ca, or of
// all those of its domain, example.com/*. The user may be nil, to whom nothing is allowed.
func Allowed(ctx context.Context, z authz.Authorizer, user *authn.Identity, verb Verb, name string) bool {
	if user == nil {
		return false
	}
	domain, _, _ := strings.Cut(name, "/")
	for _, resource := range []string{name, domain + "/*"} {
		decision, _ := z.Authorize(ctx, authz.Attributes{
			User: user, Verb: string(verb), ResourceRequest: true,
			Group: "certificates.k8s.io", Version: "*", Resource: "signers", Name: resource,
		})
		if decision.Verdict == authz.Allow {
			return true
		}
	}
	return false
}
