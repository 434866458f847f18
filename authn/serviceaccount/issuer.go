package serviceaccount

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/util/uuid"

	"github.com/keelson-dev/keelson/authn"
)

// ErrClaims: the claims contradict themselves.
var ErrClaims = errors.New("bad claims for a service account token")

// Issuer signs tokens. It implements authn.Issuer.
type Issuer struct {
	url  string
	keys *Keys
}

// NewIssuer returns an issuer with the given URL as its name. The URL need not be reachable, but only an https URL can
// have a Discovery.
func NewIssuer(url string, keys *Keys) (*Issuer, error) {
	if err := checkIssuer(url); err != nil {
		return nil, err
	}
	return &Issuer{url: url, keys: keys}, nil
}

// Issue implements authn.Issuer.
func (i *Issuer) Issue(_ context.Context, c authn.Claims) (string, error) {
	switch {
	case c.Namespace == "" || c.ServiceAccount.Name == "":
		return "", fmt.Errorf("%w: namespace and name of the service account must be set", ErrClaims)
	case c.Secret != nil && (c.Node != nil || c.Pod != nil):
		return "", fmt.Errorf("%w: token can only be bound to one object type", ErrClaims)
	}
	if c.ID == "" {
		c.ID = string(uuid.NewUUID())
	}
	return i.sign(payload{
		Audience: c.Audiences, Expiry: newDate(c.Expires), IssuedAt: newDate(c.IssuedAt), Issuer: i.url, ID: c.ID,
		Kubernetes: kubernetes{
			Namespace: c.Namespace, ServiceAccount: *newRef(&c.ServiceAccount),
			Node: newRef(c.Node), Pod: newRef(c.Pod), Secret: newRef(c.Secret), WarnAfter: newDate(c.WarnAfter),
		},
		NotBefore: newDate(c.IssuedAt), Subject: userName(c.Namespace, c.ServiceAccount.Name),
	})
}

// sign returns the token with a payload.
func (i *Issuer) sign(payload any) (string, error) {
	signer := i.keys.current.Load().signer
	if signer == nil {
		return "", ErrNoSigningKey
	}
	data, err := json.Marshal(payload)
	if err != nil {
		return "", err
	}
	signed, err := signer.Sign(data)
	if err != nil {
		return "", fmt.Errorf("sign service account token: %w", err)
	}
	return signed.CompactSerialize()
}
