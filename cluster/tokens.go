package cluster

import (
	"cmp"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/apiserver/audit"
	"github.com/keelson-dev/keelson/authn/serviceaccount"
	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/registry"
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
	return serviceaccount.NewVerifier([]string{c.tokens.url}, c.tokens.keys, in, serviceaccount.Options{
		Annotate: audit.Annotate, Legacy: &serviceaccount.Legacy{Used: c.noteUse, Warn: registry.Warn},
	})
}

// noteUse labels a secret whose token was used.
func (c *Cluster) noteUse(ctx context.Context, secret *corev1.Secret, date string) {
	data, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": secret.UID, "labels": map[string]string{serviceaccount.LastUsedLabel: date},
	}})
	if err == nil {
		at := client.Target{Resource: corev1.SchemeGroupVersion.WithResource("secrets"), Namespace: secret.Namespace, Name: secret.Name}
		_, err = c.direct().Patch(ctx, at, client.Patch{Type: types.MergePatchType, Data: data}, metav1.PatchOptions{})
	}
	if err != nil {
		c.log.Warn("cannot note when a token was used", "secret", secret.Namespace+"/"+secret.Name, "error", err)
	}
}

// trackUse publishes since when the use of tokens in secrets is noted.
func (c *Cluster) trackUse(ctx context.Context) error {
	return c.ensure(ctx, corev1.SchemeGroupVersion.WithResource("configmaps"), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: "kube-apiserver-legacy-service-account-token-tracking"},
		Data:       map[string]string{"since": time.Now().UTC().Format(time.DateOnly)},
	})
}
