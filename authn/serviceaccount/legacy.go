package serviceaccount

import (
	"context"
	"crypto/subtle"
	"encoding/json"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/authn"
)

// LegacyIssuer is the issuer of the tokens that are kept in secrets: they have no audience and never expire.
const LegacyIssuer = "kubernetes/serviceaccount"

// Labels of secrets with such tokens; their values are dates like 2006-01-02.
const (
	LastUsedLabel     = "kubernetes.io/legacy-token-last-used"
	InvalidSinceLabel = "kubernetes.io/legacy-token-invalid-since"
)

const dateFormat = time.DateOnly

// Legacy makes a Verifier accept the tokens in secrets of type kubernetes.io/service-account-token, as long as the secret
// exists and has the token. Its functions are called by the goroutine of the request.
type Legacy struct {
	// Used, if set, is to set LastUsedLabel of a secret, whose token was used, to a date. It is called about once a day for
	// each secret. The secret must not be changed.
	Used func(ctx context.Context, secret *corev1.Secret, date string)
	// Warn, if set, warns the client, which should use other tokens.
	Warn func(ctx context.Context, text string)
}

// legacyPayload is the JSON payload of a token in a secret. The order of its fields is upstream's.
type legacyPayload struct {
	Audience  audience `json:"aud,omitempty"`
	Issuer    string   `json:"iss"`
	Namespace string   `json:"kubernetes.io/serviceaccount/namespace"`
	Secret    string   `json:"kubernetes.io/serviceaccount/secret.name"`
	Account   string   `json:"kubernetes.io/serviceaccount/service-account.name"`
	UID       string   `json:"kubernetes.io/serviceaccount/service-account.uid"`
	Subject   string   `json:"sub"`
}

// IssueLegacy returns the token of an account for a secret that has this name, in the namespace of the account.
func (i *Issuer) IssueLegacy(account *corev1.ServiceAccount, secret string) (string, error) {
	if account.Namespace == "" || account.Name == "" || account.UID == "" || secret == "" {
		return "", fmt.Errorf("%w: namespace, name and UID of the service account and the name of the secret must be set", ErrClaims)
	}
	return i.sign(legacyPayload{
		Issuer: LegacyIssuer, Namespace: account.Namespace, Secret: secret, Account: account.Name, UID: string(account.UID),
		Subject: userName(account.Namespace, account.Name),
	})
}

// legacy verifies a token by LegacyIssuer whose signature is valid.
func (v *Verifier) legacy(ctx context.Context, p *legacyPayload, token string) (*authn.Identity, error) {
	asked, ok := authn.Audiences(ctx)
	if !ok {
		asked = v.options.Audiences
	}
	of := []string(p.Audience)
	if len(of) == 0 {
		of = v.options.Audiences
	}
	meant := intersect(of, asked)
	if len(meant) == 0 {
		return nil, refuse(ErrAudience, "token audiences %q is invalid for the target audiences %q", of, asked)
	}
	if err := p.complete(); err != nil {
		return nil, err
	}
	if err := v.current(ctx, p, token); err != nil {
		return nil, err
	}
	return &authn.Identity{
		Name: userName(p.Namespace, p.Account), UID: p.UID,
		Groups: []string{authn.GroupServiceAccounts, authn.GroupServiceAccounts + ":" + p.Namespace}, Audiences: meant,
	}, nil
}

// readLegacy reads a verified payload, whose issuer was read before it was verified.
func readLegacy(data []byte) (*legacyPayload, error) {
	p := &legacyPayload{}
	if err := json.Unmarshal(data, p); err != nil {
		return nil, refuse(ErrMalformed, "malformed service account token: claims do not decode")
	}
	if p.Issuer != LegacyIssuer {
		return nil, refuse(ErrIssuer, "token issuer %q is invalid", p.Issuer)
	}
	return p, nil
}

// complete checks that the token says what it must say.
func (p *legacyPayload) complete() error {
	for _, claim := range []struct{ name, value string }{
		{"sub", p.Subject}, {"namespace", p.Namespace}, {"secretName", p.Secret}, {"serviceAccountName", p.Account}, {"serviceAccountUID", p.UID},
	} {
		if claim.value == "" {
			return refuse(ErrMalformed, "%s claim is missing", claim.name)
		}
	}
	if p.Subject != userName(p.Namespace, p.Account) {
		return refuse(ErrMalformed, "sub claim is invalid")
	}
	return nil
}

// current checks that the secret still has the token, and the account still exists, and notes that the token is used.
func (v *Verifier) current(ctx context.Context, p *legacyPayload, token string) error {
	if v.in.Secrets == nil {
		return refuse(ErrInvalidated, "Token has been invalidated")
	}
	secret, ok := v.in.Secrets.Get(p.Namespace, p.Secret)
	switch {
	case !ok || secret.DeletionTimestamp != nil:
		return refuse(ErrInvalidated, "Token has been invalidated")
	case subtle.ConstantTimeCompare(secret.Data[corev1.ServiceAccountTokenKey], []byte(token)) == 0:
		return refuse(ErrInvalidated, "Token does not match server's copy")
	}
	account, ok := v.in.ServiceAccounts.Get(p.Namespace, p.Account)
	switch {
	case !ok:
		return refuse(ErrInvalidated, "serviceaccounts %q not found", p.Account)
	case account.DeletionTimestamp != nil:
		return refuse(ErrInvalidated, "ServiceAccount %s/%s has been deleted", p.Namespace, p.Account)
	case string(account.UID) != p.UID:
		return refuse(ErrInvalidated, "ServiceAccount UID (%s) does not match claim (%s)", account.UID, p.UID)
	}
	defer v.used(ctx, secret)
	if secret.Labels[InvalidSinceLabel] != "" {
		v.annotate(ctx, "authentication.k8s.io/legacy-token-invalidated", secret.Name+"/"+secret.Namespace)
		return refuse(ErrInvalidated, "the token in secret %s/%s for service account %s/%s has been marked invalid. Use tokens from the TokenRequest API "+
			"or manually created secret-based tokens, or remove the '%s' label from the secret to temporarily allow use of this token",
			p.Namespace, p.Secret, p.Namespace, p.Account, InvalidSinceLabel)
	}
	for _, ref := range account.Secrets {
		if ref.Name != secret.Name {
			continue
		}
		if warn := v.options.Legacy.Warn; warn != nil {
			warn(ctx, "Use tokens from the TokenRequest API or manually created secret-based tokens instead of auto-generated secret-based tokens.")
		}
		v.annotate(ctx, "authentication.k8s.io/legacy-token-autogenerated-secret", secret.Name)
		return nil
	}
	v.annotate(ctx, "authentication.k8s.io/legacy-token-manual-secret", secret.Name)
	return nil
}

func (v *Verifier) annotate(ctx context.Context, key, value string) {
	if v.options.Annotate != nil {
		v.options.Annotate(ctx, key, value)
	}
}

// used has the last use of a secret noted. A date of tomorrow is by a server whose clock is ahead.
func (v *Verifier) used(ctx context.Context, secret *corev1.Secret) {
	now := time.Now().UTC()
	today, tomorrow := now.Format(dateFormat), now.AddDate(0, 0, 1).Format(dateFormat)
	if last := secret.Labels[LastUsedLabel]; last == today || last == tomorrow || v.options.Legacy.Used == nil {
		return
	}
	v.options.Legacy.Used(ctx, secret, today)
}
