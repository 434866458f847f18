package authentication_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	jose "github.com/go-jose/go-jose/v4"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/apis/apiserver"
	v1 "k8s.io/apiserver/pkg/apis/apiserver/v1"
	"k8s.io/apiserver/pkg/apis/apiserver/validation"
	authenticationcel "k8s.io/apiserver/pkg/authentication/cel"
	upstreamoidc "k8s.io/apiserver/plugin/pkg/authenticator/token/oidc"

	"github.com/keelson-dev/keelson/authn"
	"github.com/keelson-dev/keelson/authn/oidc"
	"github.com/keelson-dev/keelson/authn/oidc/cel"
)

const provider = "https://login.example.com"

// expression returns one over claims, usually good.
func (d dice) expression() string {
	return d.pick(`claims.sub`, `claims.roles`, `"x:" + claims.sub`, `dyn(claims.roles).map(r, "g:" + r)`, `claims.email`, `claims.?email.orValue("")`, `claims.email_verified`,
		`claims.deep.a__dot__b`, `claims.n`, `claims["null"]`, `claims.absent`, `claims.?absent.orValue("")`, `[]`, `["a", ""]`, `[1]`, `claims.text.split(",")`, `(claims.text.split(",") + claims.text.split(",")).map(r, "g:" + r)`,
		`claims.`, `user.username`, `string(claims.exp)`, `claims.list[0].a__dot__b`, `has(claims.sub) ? "y" : "n"`, `{"a": claims.email}.a`, `""`, `null`).(string)
}

func (d dice) condition() string {
	return d.pick(`true`, `claims.sub == "ann"`, `claims.exp - claims.iat <= 86400`, `claims.?email_verified.orValue(true) == true`, `has(claims.email_verified)`, `claims.sub`, `"text"`, `false`, `claims.n > 0`,
		`claims.absent == 1`, `claims.deep.a__dot__b == "c"`, ``).(string)
}

func (d dice) prefixed(required bool) oidc.PrefixedClaimOrExpression {
	prefix := func() *string { return d.pick(new("p:"), new(""), new("p:"), (*string)(nil)).(*string) }
	switch d.IntN(8) {
	case 0:
		return oidc.PrefixedClaimOrExpression{}
	case 1, 2:
		return oidc.PrefixedClaimOrExpression{Expression: d.expression()}
	case 3:
		return oidc.PrefixedClaimOrExpression{Expression: d.expression(), Claim: d.pick("", "", "sub").(string), Prefix: d.pick((*string)(nil), prefix()).(*string)}
	}
	name := "roles"
	if required {
		name = "sub"
	}
	return oidc.PrefixedClaimOrExpression{Claim: d.pick(name, name, "email", "text", "absent").(string), Prefix: prefix()}
}

func (d dice) config() oidc.Config {
	c := oidc.Config{Issuer: oidc.Issuer{
		URL:                  d.pick(provider, provider, provider, provider, provider, provider, provider, provider, "", "http://x", "https://u:p@x/?a=b#c", "::", issuer).(string),
		DiscoveryURL:         d.pick("", "", "", "", "", "", provider+"/", "https://elsewhere/x", "http://x?y").(string),
		Audiences:            d.pick([]string{"api"}, []string{"api"}, []string{"api"}, []string{"web", "api"}, []string{"api", "api", ""}, []string{}).([]string),
		AudienceMatchPolicy:  d.pick("", "MatchAny", "MatchAny", "MatchAny", "MatchAll").(string),
		CertificateAuthority: d.pick("", "", "", "", "", "", "", "x").(string),
	}}
	c.ClaimMappings.Username, c.ClaimMappings.Groups = d.prefixed(true), d.prefixed(false)
	c.ClaimMappings.UID = d.pick(oidc.ClaimOrExpression{}, oidc.ClaimOrExpression{}, oidc.ClaimOrExpression{Claim: "sub"}, oidc.ClaimOrExpression{Expression: d.expression()},
		oidc.ClaimOrExpression{Claim: "sub", Expression: d.expression()}).(oidc.ClaimOrExpression)
	for range d.pick(0, 0, 1, 2).(int) {
		c.ClaimMappings.Extra = append(c.ClaimMappings.Extra, oidc.ExtraMapping{
			Key:             d.pick("example.com/a", "example.com/b", "example.com/b", "a", "", "Example.com/A", "k8s.io/a", "x.kubernetes.io/a", "example.com/").(string),
			ValueExpression: d.pick(d.expression(), d.expression(), d.expression(), "").(string),
		})
	}
	required := false
	for range d.pick(0, 0, 1, 2, 3).(int) {
		if r := (oidc.ClaimValidationRule{
			Claim:         d.pick("", "", "", "hd").(string),
			RequiredValue: d.pick("", "", "here").(string),
			Expression:    d.condition(), Message: d.pick("", "said so").(string),
		}); r.Claim == "" || d.one(5) || !required {
			if required = required || r.Claim != ""; r.Claim != "" && !d.one(4) {
				r.Expression, r.Message = "", d.pick("", "", "said so").(string)
			}
			c.ClaimValidationRules = append(c.ClaimValidationRules, r)
		}
	}
	for range d.pick(0, 0, 1, 2).(int) {
		c.UserValidationRules = append(c.UserValidationRules, oidc.UserValidationRule{Expression: d.pick(
			`!user.username.startsWith("system:")`, `user.groups.size() < 3`, `user.uid != ""`, `user.extra.size() == 0`, `user.name == ""`, ``, `true`, `user.username`,
			`user.extra.example__dot__com__slash__a[0] == "ann"`).(string), Message: "said so"})
	}
	return c
}

// theirs is a configuration as upstream takes it.
func theirs(c oidc.Config) apiserver.JWTAuthenticator {
	var versioned v1.JWTAuthenticator
	if err := json.Unmarshal(must(json.Marshal(c)), &versioned); err != nil {
		panic(err)
	}
	var out apiserver.JWTAuthenticator
	if err := v1.Convert_v1_JWTAuthenticator_To_apiserver_JWTAuthenticator(&versioned, &out, nil); err != nil {
		panic(err)
	}
	return out
}

// TestConfigurations: both find the same mistakes in random configurations.
func TestConfigurations(t *testing.T) {
	d, compiler, ours, valid := newDice(), authenticationcel.NewDefaultCompiler(), cel.New(), 0
	n := *requests / 4
	for range n {
		c := d.config()
		want := validation.ValidateAuthenticationConfiguration(compiler, &apiserver.AuthenticationConfiguration{JWT: []apiserver.JWTAuthenticator{theirs(c)}}, []string{issuer})
		got := c.Validate(field.NewPath("jwt").Index(0), ours, []string{issuer})
		if a, b := lines(want), lines(got); a != b {
			t.Fatalf("%s:\nupstream says\n%s\nkeelson\n%s", must(json.Marshal(c)), a, b)
		}
		if len(want) == 0 {
			valid++
		}
	}
	t.Logf("%d of %d are valid", valid, n)
	if valid == 0 || valid == n {
		t.Error("the configurations are too much alike")
	}
}

func lines(errs field.ErrorList) string {
	var all []string
	for _, err := range errs {
		all = append(all, err.Error())
	}
	return strings.Join(all, "\n")
}

// fixed is a set of one key, as upstream takes it.
type fixed struct{ key any }

// VerifySignature implements the interface of upstream's library.
func (f fixed) VerifySignature(_ context.Context, token string) ([]byte, error) {
	signed, err := jose.ParseSigned(token, []jose.SignatureAlgorithm{jose.ES256})
	if err != nil {
		return nil, err
	}
	payload, err := signed.Verify(f.key)
	if err != nil {
		return nil, errors.New("failed to verify id token signature")
	}
	return payload, nil
}

// about are the claims of a random token of the provider.
func (d dice) about() []byte {
	now := time.Now().Unix()
	c := map[string]any{}
	set := func(key string, v any) {
		if v != nil {
			c[key] = v
		}
	}
	set("iss", d.pick(provider, provider, provider, provider, provider, provider, "https://other", nil))
	set("aud", d.pick("api", "api", []string{"api"}, []string{"x", "api"}, "web", "x", []string{}, nil, 1))
	set("exp", d.pick(now+3600, now+3600, now+3600, now+3600, float64(now)+3600.5, now-5, nil, "soon"))
	set("iat", now)
	set("nbf", d.pick(nil, nil, nil, now, now+30, now+120, "soon"))
	set("sub", d.pick("ann", "ann", "ann", "system:x", "", 7, nil))
	set("roles", d.pick([]string{"a", "b"}, []string{"a", ""}, "a", []string{}, []any{"a", 1}, 7, nil))
	set("email", d.pick("a@b", nil))
	set("email_verified", d.pick(true, false, "true", nil))
	set("text", d.pick("a,b", "a", nil))
	set("n", d.pick(1, 0, -1, 1.5))
	set("deep", d.pick(map[string]any{"a.b": "c"}, map[string]any{}, nil))
	set("list", []any{map[string]any{"a.b": "c"}})
	set("hd", d.pick("here", "here", "there", "", 1, nil))
	set("jti", d.pick(nil, "", "id", 1))
	set("null", nil)
	return must(json.Marshal(c))
}

// TestIDTokens: both take random tokens for the same users, or refuse them for the same reasons.
func TestIDTokens(t *testing.T) {
	d, key, other := newDice(), newKey(), newKey()
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if strings.HasSuffix(r.URL.Path, "/keys") {
			_ = json.NewEncoder(w).Encode(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: &key.PublicKey, KeyID: "k"}}})
			return
		}
		fmt.Fprintf(w, `{"issuer":%q,"jwks_uri":%q}`, provider, provider+"/keys")
	})
	good, bad, foreign := 0, 0, 0
	const each = 100
	for n := 0; n < *requests; {
		c := d.config()
		if c.Validate(nil, cel.New(), nil) != nil {
			continue
		}
		if c.Issuer.URL != provider || c.Issuer.DiscoveryURL != "" {
			continue
		}
		up := must(upstreamoidc.New(t.Context(), upstreamoidc.Options{JWTAuthenticator: theirs(c), KeySet: fixed{&key.PublicKey}, SupportedSigningAlgs: []string{"ES256"}}))
		our := must(oidc.New(c, oidc.Options{Compiler: cel.New(), SigningAlgorithms: []string{"ES256"}, Client: &http.Client{Transport: direct{handler}}}))
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- our.Run(ctx) }()
		<-our.Discovered()
		for range each {
			n++
			claims, signing := d.about(), key
			if d.one(30) {
				signing = other
			}
			signer := must(jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: jose.JSONWebKey{Key: signing, KeyID: "k"}}, nil))
			token := must(must(signer.Sign(claims)).CompactSerialize())
			response, ok, err := up.AuthenticateToken(t.Context(), token)
			id, ourErr := our.Verify(t.Context(), token)
			switch {
			case ok && err == nil:
				good++
				if ourErr != nil || !same(id, response.User, response.Audiences) {
					t.Fatalf("%s\n%s:\nupstream takes it for %+v, keelson for %+v, %v", must(json.Marshal(c)), claims, response.User, id, ourErr)
				}
			case err != nil:
				bad++
				if ourErr == nil || instant(err) != instant(ourErr) {
					t.Fatalf("%s\n%s:\nupstream says %v,\nkeelson %v", must(json.Marshal(c)), claims, err, ourErr)
				}
			default:
				foreign++
				if !errors.Is(ourErr, authn.ErrNoCredentials) {
					t.Fatalf("%s: upstream takes it for another's, keelson says %v", claims, ourErr)
				}
			}
		}
		stop()
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%d good, %d bad, %d of others", good, bad, foreign)
	if good == 0 || bad == 0 || foreign == 0 {
		t.Error("the tokens are too much alike")
	}
}

// instant returns an error without the current time in it.
func instant(err error) string {
	text, rest, timed := strings.Cut(err.Error(), "current time ")
	_, after, _ := strings.Cut(rest, " before the nbf")
	if timed {
		return text + after
	}
	return text
}

// direct reaches a handler without a network.
type direct struct{ http.Handler }

// RoundTrip implements http.RoundTripper.
func (d direct) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	d.ServeHTTP(w, r)
	return w.Result(), nil
}
