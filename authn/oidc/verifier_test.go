package oidc_test

import (
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	jose "github.com/go-jose/go-jose/v4"

	"github.com/keelson-dev/keelson/authn"
	"github.com/keelson-dev/keelson/authn/authntest"
	"github.com/keelson-dev/keelson/authn/oidc"
	"github.com/keelson-dev/keelson/authn/token"
)

func bearer(text string) *http.Request {
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.Header.Set("Authorization", "Bearer "+text)
	return r
}

// TestOverTLS holds a verifier of a real server to the contract.
func TestOverTLS(t *testing.T) {
	i := newIssuer(keyRSA())
	i.url = ""
	server := httptest.NewTLSServer(i)
	defer server.Close()
	authority := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))
	c := basic()
	c.Issuer.URL, c.Issuer.CertificateAuthority = server.URL, authority
	v, err := oidc.New(c, oidc.Options{})
	if err != nil {
		t.Fatal(err)
	}
	good := keyRSA().sign(claims(map[string]any{"iss": server.URL, "jti": "id"}))
	if _, err := v.Verify(t.Context(), good); !errors.Is(err, oidc.ErrNotReady) {
		t.Errorf("before Run: %v", err)
	}
	if err := v.Check(t.Context()); err == nil || !strings.Contains(err.Error(), "is not initialized") {
		t.Errorf("before Run: %v", err)
	}
	stop := run(t, v)
	<-v.Discovered()
	authntest.Run(t, token.New(v), authntest.Samples{
		Good: []authntest.Sample{{Request: bearer(good), Want: authn.Identity{Name: "oidc:ann", Extra: map[string][]string{authn.CredentialID: {"JTI=id"}}}}},
		Bad: []*http.Request{
			bearer(keyRSA().sign(claims(map[string]any{"iss": server.URL, "exp": 1}))),
			bearer(keyNext().sign(claims(map[string]any{"iss": server.URL}))),
			bearer("x"),
		},
		Foreign: []*http.Request{httptest.NewRequest(http.MethodGet, "/", nil)},
	})
	if err := v.Check(t.Context()); err != nil {
		t.Error(err)
	}
	stop()
	if _, err := v.Verify(t.Context(), keyNext().sign(claims(map[string]any{"iss": server.URL}))); err == nil || !strings.Contains(err.Error(), "has ended") {
		t.Errorf("after Run: %v", err)
	}
}

// TestUntrustedIssuer: whoever cannot prove to be the issuer is not asked for keys.
func TestUntrustedIssuer(t *testing.T) {
	i := newIssuer(keyRSA())
	i.url = ""
	server := httptest.NewUnstartedServer(i)
	server.Config.ErrorLog = discard()
	server.StartTLS()
	defer server.Close()
	other := httptest.NewTLSServer(nil)
	other.Close()
	for name, authority := range map[string][]byte{"of the system": nil, "another": unrelated(t)} {
		c := basic()
		c.Issuer.URL, c.Issuer.CertificateAuthority = server.URL, string(authority)
		told := make(chan struct{}, 1)
		v, err := oidc.New(c, oidc.Options{Log: tell(told)})
		if err != nil {
			t.Fatal(err)
		}
		stop := run(t, v)
		<-told
		var unknown x509.UnknownAuthorityError
		if err := v.Check(t.Context()); !errors.As(err, &unknown) {
			t.Errorf("%s: %v", name, err)
		}
		stop()
		if i.fetches() != 0 {
			t.Errorf("%s: the keys were fetched", name)
		}
	}
}

// TestRefusals has upstream's words.
func TestRefusals(t *testing.T) {
	i := newIssuer(keyRSA(), keyEC())
	v := start(t, i, basic(), oidc.Options{})
	c := basic()
	c.Issuer.Audiences, c.Issuer.AudienceMatchPolicy = []string{"web", "api"}, oidc.MatchAny
	several := start(t, i, c, oidc.Options{SigningAlgorithms: []string{"RS256", "ES256"}})
	now := time.Now()
	for name, tt := range map[string]struct {
		v     *oidc.Verifier
		token string
		want  string // "" if it is good
		is    error
	}{
		"good":                        {v, keyRSA().sign(claims(nil)), "", nil},
		"one of several":              {several, keyRSA().sign(claims(map[string]any{"aud": []string{"x", "web"}})), "", nil},
		"another algorithm":           {several, keyEC().sign(claims(nil)), "", nil},
		"no key ID":                   {v, key{"", jose.RS256, keyRSA().private}.sign(claims(nil)), "", nil},
		"another key ID":              {v, key{"other", jose.RS256, keyRSA().private}.sign(claims(nil)), "oidc: verify token: failed to verify signature", oidc.ErrSignature},
		"algorithm":                   {v, keyEC().sign(claims(nil)), `oidc: verify token: oidc: id token signed with unsupported algorithm, expected ["RS256"] got "ES256"`, oidc.ErrSignature},
		"signature":                   {v, key{"rsa", jose.RS256, keyNext().private}.sign(claims(nil)), "oidc: verify token: failed to verify signature: failed to verify id token signature", oidc.ErrSignature},
		"audience":                    {v, keyRSA().sign(claims(map[string]any{"aud": "web"})), `oidc: verify token: oidc: expected audience "api" got ["web"]`, oidc.ErrAudience},
		"no audience":                 {v, keyRSA().sign(claims(map[string]any{"aud": nil})), `oidc: verify token: oidc: expected audience "api" got []`, oidc.ErrAudience},
		"audiences":                   {several, keyRSA().sign(claims(map[string]any{"aud": "x"})), `oidc: verify token: oidc: expected audience in ["api" "web"] got ["x"]`, oidc.ErrAudience},
		"expired":                     {v, keyRSA().sign(claims(map[string]any{"exp": 1})), "oidc: verify token: oidc: token is expired (Token Expiry: " + time.Unix(1, 0).String() + ")", oidc.ErrExpired},
		"late and for others":         {v, keyRSA().sign(claims(map[string]any{"exp": 1, "aud": "web"})), "oidc: verify token: oidc: expected audience", oidc.ErrAudience},
		"late and for several others": {several, keyRSA().sign(claims(map[string]any{"exp": 1, "aud": "x"})), "oidc: verify token: oidc: token is expired", oidc.ErrExpired},
		"a date that is text":         {v, keyRSA().sign(claims(map[string]any{"exp": "tomorrow"})), "oidc: verify token: oidc: failed to unmarshal claims: json: invalid number literal", nil},
		"a date of exponents":         {v, keyRSA().sign(claims(map[string]any{"exp": json.Number("1e18")})), "", nil},
		"the first impossible date":   {v, keyRSA().sign(claims(map[string]any{"exp": json.Number("1152921504606846976.0")})), "oidc: verify token: oidc: failed to unmarshal claims: date out of range", nil},
		"one far in the past":         {v, keyRSA().sign(claims(map[string]any{"exp": -1e300})), "oidc: verify token: oidc: failed to unmarshal claims: date out of range", nil},
		"a date beyond all numbers":   {v, keyRSA().sign(claims(map[string]any{"exp": json.Number("1e400")})), "oidc: verify token: oidc: failed to unmarshal claims: strconv.ParseFloat", nil},
		"audiences that are none":     {v, keyRSA().sign(claims(map[string]any{"aud": 1})), "oidc: verify token: oidc: failed to unmarshal claims: json: cannot unmarshal number", nil},
		"without an end":              {v, keyRSA().sign(claims(map[string]any{"exp": nil})), "oidc: verify token: oidc: token is expired (Token Expiry: 0001-01-01 00:00:00 +0000 UTC)", oidc.ErrExpired},
		"a fraction":                  {v, keyRSA().sign(claims(map[string]any{"exp": float64(now.Unix()) + 60.5})), "", nil},
		"an impossible date":          {v, keyRSA().sign(claims(map[string]any{"exp": 1e300})), "oidc: verify token: oidc: failed to unmarshal claims: date out of range", nil},
		"soon":                        {v, keyRSA().sign(claims(map[string]any{"nbf": now.Add(50 * time.Second).Unix()})), "", nil},
		"not yet":                     {v, keyRSA().sign(claims(map[string]any{"nbf": now.Add(2 * time.Minute).Unix()})), "oidc: verify token: oidc: current time ", nil},
		"no name":                     {v, keyRSA().sign(claims(map[string]any{"sub": nil})), `oidc: parse username claims "sub": claim not present`, nil},
		"no text":                     {v, keyRSA().sign(claims(map[string]any{"sub": 7})), `oidc: verify token: oidc: failed to unmarshal claims: json: cannot unmarshal number into Go struct field idToken.sub of type string`, nil},
		"another issuer":              {v, keyRSA().sign(claims(map[string]any{"iss": "https://other"})), "no credentials", authn.ErrNoCredentials},
		"no issuer":                   {v, keyRSA().sign(claims(map[string]any{"iss": nil})), "no credentials", authn.ErrNoCredentials},
		"not a JWT":                   {v, "a.b.c.d", "no credentials", authn.ErrNoCredentials},
		"JSON":                        {v, `{"payload":"e30","signatures":[]}`, "no credentials", authn.ErrNoCredentials},
		"not a signature":             {v, "a." + strings.Split(keyRSA().sign(claims(nil)), ".")[1] + ".c", "oidc: verify token: oidc: malformed jwt", nil},
	} {
		_, err := tt.v.Verify(t.Context(), tt.token)
		switch {
		case tt.want == "" && err != nil, tt.want != "" && (err == nil || !strings.HasPrefix(err.Error(), tt.want)):
			t.Errorf("%s: %v", name, err)
		case tt.is != nil && !errors.Is(err, tt.is):
			t.Errorf("%s: %v is not %v", name, err, tt.is)
		}
	}
}

// forge makes a token with any header.
func forge(header map[string]any, claims map[string]any, signature string) string {
	part := func(v any) string { return base64.RawURLEncoding.EncodeToString(must(json.Marshal(v))) }
	return part(header) + "." + part(claims) + "." + signature
}

// TestAttacks: nobody but the issuer makes tokens.
func TestAttacks(t *testing.T) {
	i := newIssuer(keyRSA())
	v := start(t, i, basic(), oidc.Options{SigningAlgorithms: oidc.SigningAlgorithms()})
	good := keyRSA().sign(claims(nil))
	parts := strings.Split(good, ".")
	public := must(x509.MarshalPKIXPublicKey(keyRSA().public().Key))
	attacks := map[string]string{
		"no algorithm":             forge(map[string]any{"alg": "none"}, claims(nil), ""),
		"no algorithm, in capital": forge(map[string]any{"alg": "NONE", "kid": "rsa"}, claims(nil), ""),
		"no header":                forge(map[string]any{}, claims(nil), parts[2]),
		"no signature":             parts[0] + "." + parts[1] + ".",
		"the signature of another": strings.Join([]string{parts[0], strings.Split(keyRSA().sign(claims(map[string]any{"sub": "root"})), ".")[1], parts[2]}, "."),
		"a key in the header":      embedded(t, true),
		"a URL in the header":      forge(map[string]any{"alg": "RS256", "jku": "https://evil.example.com/keys", "kid": "evil"}, claims(nil), parts[2]),
		"a critical extension":     forge(map[string]any{"alg": "RS256", "kid": "rsa", "crit": []string{"exp"}, "exp": 1}, claims(nil), parts[2]),
		"a space":                  " " + keyNext().sign(claims(nil)),
	}
	for _, secret := range [][]byte{public, pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public}), must(json.Marshal(keyRSA().public()))} {
		attacks[fmt.Sprintf("HS256 with a public key of %d bytes", len(secret))] = key{"rsa", jose.HS256, secret}.sign(claims(nil))
	}
	for _, id := range []string{"", "unknown", "../../etc/passwd", "rsa\x00", "RSA", "' OR 1=1"} {
		attacks["key ID "+id] = key{id, jose.RS256, keyNext().private}.sign(claims(nil))
	}
	for name, text := range attacks {
		if id, err := v.Verify(t.Context(), text); err == nil || id != nil {
			t.Errorf("%s: got through as %+v", name, id)
		} else if len(text) > 50 && strings.Contains(err.Error(), text[len(text)-50:]) {
			t.Errorf("%s: the error tells the token: %v", name, err)
		}
	}
	if _, err := v.Verify(t.Context(), good); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}

// embedded makes a token that brings its own key.
func embedded(t *testing.T, own bool) string {
	t.Helper()
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.RS256, Key: keyNext().private}, &jose.SignerOptions{EmbedJWK: own})
	if err != nil {
		t.Fatal(err)
	}
	return must(must(signer.Sign(must(json.Marshal(claims(nil))))).CompactSerialize())
}
