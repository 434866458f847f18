// Package bootstraptoken verifies bootstrap tokens: bearer tokens such as abcdef.0123456789abcdef, with which nodes join a
// cluster. Their secrets are objects in kube-system.
//
// The user of a token is called system:bootstrap: and the token's ID, and is in the group system:bootstrappers and those that
// the secret names. A token whose secret does not exist, is another, is being deleted, has expired or is not for
// authentication is not recognized: the error is authn.ErrNoCredentials, and others may try.
//
// A Verifier is safe for concurrent use if its source is.
package bootstraptoken

import (
	"context"
	"crypto/subtle"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/authn"
	"github.com/keelson-dev/keelson/authn/token"
	"github.com/keelson-dev/keelson/internal/bootstraptoken"
)

// Secrets reads one secret by namespace and name, and returns false if it does not exist. An informer is one.
type Secrets interface {
	Get(namespace, name string) (*corev1.Secret, bool)
}

// Verifier verifies bootstrap tokens. Make one with New.
type Verifier struct{ secrets Secrets }

var _ token.Verifier = (*Verifier)(nil)

// New returns a Verifier of the tokens whose secrets the source has.
func New(secrets Secrets) *Verifier { return &Verifier{secrets} }

// Verify implements token.Verifier.
func (v *Verifier) Verify(_ context.Context, text string) (*authn.Identity, error) {
	id, given, ok := bootstraptoken.Split(text)
	if !ok {
		return nil, authn.ErrNoCredentials
	}
	s, ok := v.secrets.Get("kube-system", bootstraptoken.Name(id))
	if !ok || s.DeletionTimestamp != nil || !bootstraptoken.Is(s) {
		return nil, authn.ErrNoCredentials
	}
	_, want, ok := bootstraptoken.Read(s, bootstraptoken.Authentication, time.Now())
	if !ok || subtle.ConstantTimeCompare([]byte(want), []byte(given)) != 1 {
		return nil, authn.ErrNoCredentials
	}
	groups, err := bootstraptoken.Groups(s)
	if err != nil {
		return nil, authn.ErrNoCredentials // as upstream, which does not recognize such a token
	}
	return &authn.Identity{Name: bootstraptoken.UserPrefix + id, Groups: groups}, nil
}
