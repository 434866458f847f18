package serviceaccount

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	jose "github.com/go-jose/go-jose/v4"

	"github.com/keelson-dev/keelson/authn"
)

// Keys in Identity.Extra for what a token is bound to.
const (
	PodName  = "authentication.kubernetes.io/pod-name"
	PodUID   = "authentication.kubernetes.io/pod-uid"
	NodeName = "authentication.kubernetes.io/node-name"
	NodeUID  = "authentication.kubernetes.io/node-uid"
)

// leeway is how far clocks may differ, and how long tokens stay valid for an object that is being deleted.
const leeway = time.Minute

// ErrIssuerURL: the name of an issuer is invalid.
var ErrIssuerURL = errors.New("bad service account issuer")

// The reasons for refusing a token; test for them with errors.Is. ErrIssuer and ErrMalformed usually come with
// authn.ErrNoCredentials: the token may be for another verifier.
var (
	ErrIssuer         = errors.New("unknown token issuer")
	ErrMalformed      = errors.New("malformed service account token")
	ErrUnknownKey     = errors.New("invalid signature, no keys found")
	ErrSignature      = errors.New("invalid signature")
	ErrAudience       = errors.New("wrong audience")
	ErrExpired        = errors.New("service account token has expired")
	ErrNotYetValid    = errors.New("service account token is not valid yet")
	ErrIssuedInFuture = errors.New("service account token is issued in the future")
	// ErrInvalidated: the account, or the object that the token is bound to, is gone.
	ErrInvalidated = errors.New("service account token has been invalidated")
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

// Options of a Verifier; the zero value is ready to use.
type Options struct {
	// Audiences are those of the server: tokens must name one of them, unless the request requires others
	// (authn.WithAudiences). Empty means the first issuer.
	Audiences []string
	// Annotate, if set, adds an annotation to the audit record of a request whose token is used after its
	// Claims.WarnAfter.
	Annotate func(ctx context.Context, key, value string)
	// Legacy, if set, makes the Verifier accept the tokens in secrets, too.
	Legacy *Legacy
}

// Verifier verifies tokens. It implements token.Verifier.
type Verifier struct {
	issuers []string
	keys    *Keys
	in      Sources
	options Options
	cache   *cache
}

// verified is a token whose signature was verified with a set of keys.
type verified struct {
	set     *keySet
	payload payload
	// legacy is set instead of the payload if the token is by LegacyIssuer.
	legacy *legacyPayload
	// own is the identity for the server's own audiences; nil if the token is not for these.
	own *authn.Identity
}

// NewVerifier returns the Verifier of tokens by any of issuers. While an issuer is being renamed, this accepts tokens
// under both names.
func NewVerifier(issuers []string, keys *Keys, in Sources, o Options) (*Verifier, error) {
	if len(issuers) == 0 {
		return nil, fmt.Errorf("%w: there is none", ErrIssuerURL)
	}
	for _, issuer := range issuers {
		if err := checkIssuer(issuer); err != nil {
			return nil, err
		}
	}
	if in.ServiceAccounts == nil {
		return nil, errors.New("a verifier of service account tokens needs Sources.ServiceAccounts")
	}
	if len(o.Audiences) == 0 {
		o.Audiences = issuers[:1]
	}
	return &Verifier{issuers: slices.Clone(issuers), keys: keys, in: in, options: o, cache: newCache()}, nil
}

func checkIssuer(issuer string) error {
	if issuer == "" {
		return fmt.Errorf("%w: it is empty", ErrIssuerURL)
	}
	if strings.Contains(issuer, ":") {
		if _, err := url.Parse(issuer); err != nil {
			return fmt.Errorf("%w: it contains a ':' but is not a valid URL: %w", ErrIssuerURL, err)
		}
	}
	return nil
}

// Verify implements token.Verifier.
func (v *Verifier) Verify(ctx context.Context, token string) (*authn.Identity, error) {
	found, err := v.signed(token)
	if err != nil {
		return nil, err
	}
	if found.legacy != nil {
		return v.legacy(ctx, found.legacy, token)
	}
	id, err := v.meant(ctx, found)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	if err := found.payload.timely(now); err != nil {
		return nil, err
	}
	if err := v.in.check(&found.payload.Kubernetes, now); err != nil {
		return nil, err
	}
	v.noteStale(ctx, &found.payload, now)
	return id, nil
}

// noteStale reports the use of a token that its holder should have replaced (KEP-1205).
func (v *Verifier) noteStale(ctx context.Context, p *payload, now time.Time) {
	warn := p.Kubernetes.WarnAfter
	if v.options.Annotate == nil || warn == nil || *warn == 0 || !now.After(warn.time()) {
		return
	}
	v.options.Annotate(ctx, "authentication.k8s.io/stale-token",
		fmt.Sprintf("subject: %s, seconds after warning threshold: %d", p.Subject, now.Unix()-int64(*warn)))
}

// meant returns the identity for the requested audiences.
func (v *Verifier) meant(ctx context.Context, t *verified) (*authn.Identity, error) {
	asked, ok := authn.Audiences(ctx)
	if !ok && t.own != nil {
		return t.own, nil
	}
	if !ok {
		asked = v.options.Audiences
	}
	of := v.audiencesOf(&t.payload)
	meant := intersect(of, asked)
	if len(meant) == 0 {
		return nil, refuse(ErrAudience, "token audiences %q is invalid for the target audiences %q", of, asked)
	}
	return t.payload.identity(meant), nil
}

// audiencesOf returns the audiences of a token: the server's if it names none.
func (v *Verifier) audiencesOf(p *payload) []string {
	if len(p.Audience) == 0 {
		return v.options.Audiences
	}
	return p.Audience
}

// intersect returns the elements of asked that are in of.
func intersect(of, asked []string) []string {
	var both []string
	for _, a := range asked {
		if slices.Contains(of, a) {
			both = append(both, a)
		}
	}
	return both
}

// timely checks that the token is valid now.
func (p *payload) timely(now time.Time) error {
	switch {
	case now.Add(leeway).Before(p.NotBefore.time()): // no time is before a missing date
		return ErrNotYetValid
	case p.Expiry != nil && now.Add(-leeway).After(p.Expiry.time()):
		return ErrExpired
	case now.Add(leeway).Before(p.IssuedAt.time()):
		return ErrIssuedInFuture
	}
	return nil
}

// signed returns a token's content, if it is from one of the issuers and its signature is valid.
func (v *Verifier) signed(token string) (*verified, error) {
	set := v.keys.current.Load()
	key := cacheKey(sha256.Sum256([]byte(token)))
	if known := v.cache.get(key); known != nil && known.set == set {
		return known, nil
	}
	legacy, err := v.claimed(token)
	if err != nil {
		return nil, err
	}
	data, err := set.verify(token)
	if err != nil {
		return nil, err
	}
	found := &verified{set: set}
	if legacy {
		if found.legacy, err = readLegacy(data); err != nil {
			return nil, err
		}
		v.cache.put(key, found)
		return found, nil
	}
	if err := json.Unmarshal(data, &found.payload); err != nil {
		return nil, refuse(ErrMalformed, "malformed service account token: claims do not decode")
	}
	// The issuer was read before the signature was verified.
	if !slices.Contains(v.issuers, found.payload.Issuer) {
		return nil, refuse(ErrIssuer, "token issuer %q is invalid", found.payload.Issuer)
	}
	if meant := intersect(v.audiencesOf(&found.payload), v.options.Audiences); len(meant) > 0 {
		found.own = found.payload.identity(meant)
	}
	v.cache.put(key, found)
	return found, nil
}

// claimed checks that a token claims to be from one of the issuers, or to be one in a secret.
func (v *Verifier) claimed(token string) (legacy bool, err error) {
	_, rest, _ := strings.Cut(token, ".")
	middle, _, jwt := strings.Cut(rest, ".")
	data, err := base64.RawURLEncoding.DecodeString(middle)
	if !jwt || err != nil {
		return false, authn.ErrNoCredentials
	}
	var claims struct {
		Issuer string `json:"iss"`
	}
	switch {
	case json.Unmarshal(data, &claims) != nil:
		return false, authn.ErrNoCredentials
	case claims.Issuer == LegacyIssuer && v.options.Legacy != nil:
		return true, nil
	case !slices.Contains(v.issuers, claims.Issuer):
		return false, fmt.Errorf("%w: %w %.200q", authn.ErrNoCredentials, ErrIssuer, claims.Issuer)
	}
	return false, nil
}

// verify returns the payload of a token signed by one of the keys.
func (s *keySet) verify(token string) ([]byte, error) {
	signed, err := jose.ParseSignedCompact(token, []jose.SignatureAlgorithm{jose.RS256, jose.ES256, jose.ES384, jose.ES512})
	if unexpected := (*jose.ErrUnexpectedSignatureAlgorithm)(nil); errors.As(err, &unexpected) {
		return nil, fmt.Errorf("%w, algorithm %.20q", ErrSignature, unexpected.Got)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", authn.ErrNoCredentials, ErrMalformed) // the cause may quote the token
	}
	header := signed.Signatures[0].Protected
	keys := s.named(header.KeyID)
	if len(keys) == 0 {
		return nil, ErrUnknownKey
	}
	for _, key := range keys {
		if string(key.alg) != header.Algorithm {
			continue
		}
		if data, err := signed.Verify(key.key); err == nil {
			return data, nil
		}
	}
	return nil, ErrSignature
}
