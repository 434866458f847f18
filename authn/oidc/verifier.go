package oidc

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"

	jose "github.com/go-jose/go-jose/v4"

	"github.com/keelson-dev/keelson/authn"
	"github.com/keelson-dev/keelson/authn/token"
)

// The reasons for refusing a token that callers may want to tell apart; test for them with errors.Is.
var (
	ErrNotReady  = errors.New("oidc: authenticator not initialized")
	ErrExpired   = errors.New("oidc: token is expired")
	ErrAudience  = errors.New("oidc: wrong audience")
	ErrSignature = errors.New("oidc: bad signature")
)

// refusal is one of the errors above in upstream's words.
type refusal struct {
	reason error
	text   string
}

func (r *refusal) Error() string { return r.text }
func (r *refusal) Unwrap() error { return r.reason }

func refuse(reason error, format string, args ...any) error {
	return &refusal{reason, fmt.Sprintf(format, args...)}
}

// leeway is how far clocks may differ about when a token becomes valid. There is none about when it expires.
const leeway = time.Minute

// SigningAlgorithms returns all algorithms that may be accepted.
func SigningAlgorithms() []string {
	return []string{"ES256", "ES384", "ES512", "PS256", "PS384", "PS512", "RS256", "RS384", "RS512"}
}

// Options of New; the zero value is ready to use.
type Options struct {
	// Compiler compiles expressions; without one they are refused.
	Compiler Compiler
	// SigningAlgorithms are those that are accepted; empty means RS256 alone.
	SigningAlgorithms []string
	// DisallowedIssuers are issuers that others verify: those of service accounts.
	DisallowedIssuers []string
	// Client reaches the issuer; nil makes one that trusts Issuer.CertificateAuthority, or the system's authorities.
	Client *http.Client
	// Log receives why the issuer cannot be reached; nil discards.
	Log *slog.Logger
	// Verified, if set, is called after each token of this issuer with how long it took and why it is refused.
	Verified func(took time.Duration, err error)
	// Fetched, if set, is called after each attempt to fetch keys with the issuer's answer.
	Fetched func(answer []byte, err error)
}

// Verifier verifies tokens of one issuer. Make one with New.
type Verifier struct {
	config     Config
	options    Options
	program    *program
	algorithms []jose.SignatureAlgorithm
	source     *source
	claims     *resolver // of distributed claims; nil if no groups are claimed
}

var _ token.Verifier = (*Verifier)(nil)

// New returns a Verifier. It fails if the configuration is wrong, and does not reach out to the issuer: Run does.
func New(c Config, o Options) (*Verifier, error) {
	compiled, errs := compile(&c, nil, o.Compiler, o.DisallowedIssuers)
	if err := errs.ToAggregate(); err != nil {
		return nil, err
	}
	if len(o.SigningAlgorithms) == 0 {
		o.SigningAlgorithms = []string{"RS256"}
	}
	v := &Verifier{config: c, options: o, program: compiled}
	for _, name := range o.SigningAlgorithms {
		if !slices.Contains(SigningAlgorithms(), name) {
			return nil, fmt.Errorf("oidc: unsupported signing alg: %q", name)
		}
		v.algorithms = append(v.algorithms, jose.SignatureAlgorithm(name))
	}
	if o.Log == nil {
		v.options.Log = slog.New(slog.DiscardHandler)
	}
	client := o.Client
	if client == nil {
		var err error
		if client, err = newClient(c.Issuer.CertificateAuthority); err != nil {
			return nil, err
		}
	}
	v.source = newSource(client, c.Issuer.URL, c.Issuer.DiscoveryURL)
	v.source.failed = func(err error) {
		v.options.Log.Error("oidc authenticator: initializing plugin", "issuer", c.Issuer.URL, "error", err)
	}
	if o.Fetched != nil {
		v.source.fetched = o.Fetched
	}
	if c.ClaimMappings.Groups.Claim != "" {
		v.claims = newResolver(v, client)
	}
	return v, nil
}

// Run asks the issuer for its keys until ctx ends. It must be called once: until then no token is valid.
func (v *Verifier) Run(ctx context.Context) error {
	if v.claims == nil {
		return v.source.run(ctx)
	}
	return v.claims.run(ctx, v.source)
}

// Check returns why no token can be verified, or nil if some can.
func (v *Verifier) Check(context.Context) error {
	if err := v.source.ready(); err != nil {
		return fmt.Errorf("oidc: authenticator for issuer %q is not healthy: %w", v.config.Issuer.URL, err)
	}
	return nil
}

// Discovered returns a channel that is closed when the issuer has said where its keys are.
func (v *Verifier) Discovered() <-chan struct{} { return v.source.discovered }

// Issuer returns the issuer's URL.
func (v *Verifier) Issuer() string { return v.config.Issuer.URL }

// Verify implements token.Verifier.
func (v *Verifier) Verify(ctx context.Context, token string) (*authn.Identity, error) {
	if issuer, _ := unverifiedIssuer(token); issuer != v.config.Issuer.URL { // none is not empty
		return nil, authn.ErrNoCredentials
	}
	began := time.Now()
	id, err := v.verify(ctx, token)
	if v.options.Verified != nil {
		v.options.Verified(time.Since(began), err)
	}
	return id, err
}

func (v *Verifier) verify(ctx context.Context, token string) (*authn.Identity, error) {
	if v.source.ready() != nil {
		return nil, ErrNotReady
	}
	claims, known, err := v.accept(ctx, v.source, token)
	if err != nil {
		return nil, refuse(err, "oidc: verify token: %v", err)
	}
	if v.claims != nil {
		if err := v.claims.expand(ctx, claims, known); err != nil {
			return nil, fmt.Errorf("oidc: could not expand distributed claims: %w", err)
		}
	}
	return v.identity(ctx, claims)
}

// accept returns the claims of a token from an issuer.
func (v *Verifier) accept(ctx context.Context, from *source, token string) (Claims, *idToken, error) {
	signed, err := jose.ParseSignedCompact(token, v.algorithms)
	if unexpected := (*jose.ErrUnexpectedSignatureAlgorithm)(nil); errors.As(err, &unexpected) {
		return nil, nil, refuse(ErrSignature, "oidc: id token signed with unsupported algorithm, expected %q got %.20q", v.options.SigningAlgorithms, unexpected.Got)
	}
	if err != nil {
		return nil, nil, errors.New("oidc: malformed jwt") // the cause may quote the token
	}
	payload, err := from.verify(ctx, signed)
	if err != nil {
		return nil, nil, refuse(ErrSignature, "failed to verify signature: %v", err)
	}
	var claims Claims
	var known idToken
	if err := json.Unmarshal(payload, &known); err != nil {
		return nil, nil, fmt.Errorf("oidc: failed to unmarshal claims: %w", err)
	}
	if err := errors.Join(known.sourced(), json.Unmarshal(payload, &claims)); err != nil {
		return nil, nil, err
	}
	if coalesced(known.Issuer) != from.issuer {
		return nil, nil, fmt.Errorf("oidc: id token issued by a different provider, expected %q got %.200q", from.issuer, known.Issuer)
	}
	err, late := v.audience(known.Audience), timely(time.Now(), known.Expiry.time(), known.NotBefore)
	if len(v.config.Issuer.Audiences) > 1 {
		err, late = late, err // the order of upstream
	}
	return claims, &known, cmp.Or(err, late)
}

// audience checks that a token is for one of the audiences.
func (v *Verifier) audience(of []string) error {
	want := v.config.Issuer.Audiences
	if slices.ContainsFunc(of, func(a string) bool { return slices.Contains(want, a) }) {
		return nil
	}
	if len(want) == 1 {
		return refuse(ErrAudience, "oidc: expected audience %q got %.1000q", want[0], of)
	}
	return refuse(ErrAudience, "oidc: expected audience in %q got %.1000q", slices.Sorted(slices.Values(want)), of)
}

func timely(now, expiry time.Time, notBefore *date) error {
	if expiry.Before(now) {
		return refuse(ErrExpired, "oidc: token is expired (Token Expiry: %v)", expiry)
	}
	if notBefore != nil && now.Add(leeway).Before(notBefore.time()) {
		return fmt.Errorf("oidc: current time %v before the nbf (not before) time: %v", now, notBefore.time())
	}
	return nil
}

// unverifiedIssuer returns who claims to have issued a token.
func unverifiedIssuer(token string) (string, error) {
	if strings.HasPrefix(strings.TrimSpace(token), "{") {
		return "", errors.New("token is not compact JWT")
	}
	if strings.Count(token, ".") != 2 {
		return "", errors.New("malformed token")
	}
	payload, err := base64.RawURLEncoding.DecodeString(strings.Split(token, ".")[1])
	if err != nil {
		return "", fmt.Errorf("error decoding token: %w", err)
	}
	var claims struct {
		Issuer string `json:"iss"`
	}
	if err := json.Unmarshal(payload, &claims); err != nil {
		return "", fmt.Errorf("while unmarshaling token: %w", err)
	}
	return coalesced(claims.Issuer), nil
}

// coalesced returns the URL of an issuer, of which one is known to omit the scheme.
func coalesced(issuer string) string {
	if issuer == "accounts.google.com" {
		return "https://accounts.google.com"
	}
	return issuer
}
