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

// tokenIssuer is Server.TokenIssuer where that is empty.
const tokenIssuer = "https://kubernetes.default.svc.cluster.local"

// tokens are how service accounts come by their tokens and how these are judged.
type tokens struct {
	url      string
	keys     *serviceaccount.Keys
	issuer   *serviceaccount.Issuer
	verifier *serviceaccount.Verifier // once there is a registry to look into
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

// newVerifier judges tokens by what is stored now: one ends with its pod, at once.
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
