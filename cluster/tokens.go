package cluster

import (
	"cmp"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/apiserver/audit"
	"github.com/keelson-dev/keelson/authn/serviceaccount"
)

// tokenIssuer is the default of Server.TokenIssuer.
const tokenIssuer = "https://kubernetes.default.svc.cluster.local"

// tokens issues and verifies service account tokens.
type tokens struct {
	url      string
	keys     *serviceaccount.Keys
	issuer   *serviceaccount.Issuer
	verifier *serviceaccount.Verifier // set once there is a registry
}

func (c *Cluster) newTokens() (t tokens, err error) {
	t.url = cmp.Or(c.options.Server.TokenIssuer, tokenIssuer)
	if t.keys = c.options.Server.TokenKeys; t.keys == nil {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			return t, fmt.Errorf("make token key: %w", err)
		}
		if t.keys, err = serviceaccount.NewKeys(key); err != nil {
			return t, err
		}
	}
	t.issuer, err = serviceaccount.NewIssuer(t.url, t.keys)
	if err != nil {
		err = fmt.Errorf("%w: Server.TokenIssuer: %w", ErrOptions, err)
	}
	return t, err
}

// newVerifier makes a verifier that checks tokens against the current state: a token becomes invalid as soon as its pod
// is gone.
func (c *Cluster) newVerifier() (*serviceaccount.Verifier, error) {
	var err error
	in := serviceaccount.Sources{
		ServiceAccounts: view[*corev1.ServiceAccount](c.registry, coreResource("serviceaccounts"), &err),
		Pods:            view[*corev1.Pod](c.registry, coreResource("pods"), &err),
		Secrets:         view[*corev1.Secret](c.registry, coreResource("secrets"), &err),
		Nodes:           view[*corev1.Node](c.registry, coreResource("nodes"), &err),
	}
	if err != nil {
		return nil, err
	}
	return serviceaccount.NewVerifier([]string{c.tokens.url}, c.tokens.keys, in, serviceaccount.Options{Annotate: audit.Annotate})
}
