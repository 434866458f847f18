package oidc_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-dev/keelson/authn"
	"github.com/keelson-dev/keelson/authn/oidc"
)

// TestClaims: claims become attributes by name.
func TestClaims(t *testing.T) {
	i := newIssuer(keyRSA())
	for name, tt := range map[string]struct {
		change func(*oidc.Config)
		claims map[string]any
		want   authn.Identity
		fails  string
	}{
		"groups": {
			func(c *oidc.Config) {
				c.ClaimMappings.Groups = oidc.PrefixedClaimOrExpression{Claim: "roles", Prefix: new("g:")}
				c.ClaimMappings.UID.Claim = "id"
			},
			map[string]any{"roles": []string{"a", "b"}, "id": "u"}, authn.Identity{Name: "oidc:ann", Groups: []string{"g:a", "g:b"}, UID: "u"}, "",
		},
		"one group": {
			func(c *oidc.Config) {
				c.ClaimMappings.Groups = oidc.PrefixedClaimOrExpression{Claim: "roles", Prefix: new("")}
			},
			map[string]any{"roles": "a"}, authn.Identity{Name: "oidc:ann", Groups: []string{"a"}}, "",
		},
		"no groups": {
			func(c *oidc.Config) {
				c.ClaimMappings.Groups = oidc.PrefixedClaimOrExpression{Claim: "roles", Prefix: new("")}
			},
			nil, authn.Identity{Name: "oidc:ann"}, "",
		},
		"bad groups": {
			func(c *oidc.Config) {
				c.ClaimMappings.Groups = oidc.PrefixedClaimOrExpression{Claim: "roles", Prefix: new("")}
			},
			map[string]any{"roles": 1}, authn.Identity{}, `oidc: parse groups claim "roles": json: cannot unmarshal number into Go value of type string`,
		},
		"no UID": {
			func(c *oidc.Config) { c.ClaimMappings.UID.Claim = "id" }, nil, authn.Identity{}, `oidc: parse uid claim "id": claim not present`,
		},
		"email": {
			func(c *oidc.Config) { c.ClaimMappings.Username.Claim = "email" },
			map[string]any{"email": "a@b", "email_verified": true}, authn.Identity{Name: "oidc:a@b"}, "",
		},
		"email of which nothing is said": {
			func(c *oidc.Config) { c.ClaimMappings.Username.Claim = "email" }, map[string]any{"email": "a@b"}, authn.Identity{Name: "oidc:a@b"}, "",
		},
		"email not verified": {
			func(c *oidc.Config) { c.ClaimMappings.Username.Claim = "email" },
			map[string]any{"email": "a@b", "email_verified": false}, authn.Identity{}, "oidc: email not verified",
		},
		"email perhaps verified": {
			func(c *oidc.Config) { c.ClaimMappings.Username.Claim = "email" },
			map[string]any{"email": "a@b", "email_verified": "true"}, authn.Identity{}, "oidc: parse 'email_verified' claim: json: cannot unmarshal string into Go value of type bool",
		},
		"required": {
			func(c *oidc.Config) {
				c.ClaimValidationRules = []oidc.ClaimValidationRule{{Claim: "hd", RequiredValue: "here"}}
			},
			map[string]any{"hd": "here"}, authn.Identity{Name: "oidc:ann"}, "",
		},
		"required and absent": {
			func(c *oidc.Config) {
				c.ClaimValidationRules = []oidc.ClaimValidationRule{{Claim: "hd", RequiredValue: "here"}}
			}, nil, authn.Identity{}, "oidc: required claim hd not present in ID token",
		},
		"required and different": {
			func(c *oidc.Config) {
				c.ClaimValidationRules = []oidc.ClaimValidationRule{{Claim: "hd", RequiredValue: "here"}}
			},
			map[string]any{"hd": "there"}, authn.Identity{}, "oidc: required claim hd value does not match. Got = there, want = here",
		},
		"required and no text": {
			func(c *oidc.Config) {
				c.ClaimValidationRules = []oidc.ClaimValidationRule{{Claim: "hd", RequiredValue: "1"}}
			},
			map[string]any{"hd": 1}, authn.Identity{}, "oidc: parse claim hd: json: cannot unmarshal number into Go value of type string",
		},
	} {
		c := basic()
		tt.change(&c)
		v := start(t, i, c, oidc.Options{})
		id, err := v.Verify(t.Context(), keyRSA().sign(claims(tt.claims)))
		switch {
		case tt.fails != "" && (err == nil || err.Error() != tt.fails):
			t.Errorf("%s: %+v, %v", name, id, err)
		case tt.fails == "" && (err != nil || !reflect.DeepEqual(*id, tt.want)):
			t.Errorf("%s: %+v, %v", name, id, err)
		}
	}
}

// TestObservers: a token of this issuer is told of, another is not.
func TestObservers(t *testing.T) {
	i := newIssuer(keyRSA())
	var verified, fetched []error
	var answers []string
	v := start(t, i, basic(), oidc.Options{
		Verified: func(_ time.Duration, err error) { verified = append(verified, err) },
		Fetched: func(answer []byte, err error) {
			fetched, answers = append(fetched, err), append(answers, string(answer))
		},
	})
	_, _ = v.Verify(t.Context(), keyRSA().sign(claims(nil)))
	_, _ = v.Verify(t.Context(), keyRSA().sign(claims(map[string]any{"exp": 1})))
	_, _ = v.Verify(t.Context(), keyRSA().sign(claims(map[string]any{"iss": "https://other"})))
	if len(verified) != 2 || verified[0] != nil || !errors.Is(verified[1], oidc.ErrExpired) || len(fetched) != 1 || fetched[0] != nil {
		t.Errorf("%v, %v", verified, fetched)
	}
	i.answer("/keys", "x")
	_, _ = v.Verify(t.Context(), keyNext().sign(claims(nil)))
	if len(answers) != 2 || !strings.Contains(answers[0], `"kid":"rsa"`) || answers[1] != "x" || fetched[1] == nil {
		t.Errorf("%v, %q", fetched, answers)
	}
	if v.Issuer() != issuerURL {
		t.Error(v.Issuer())
	}
}

// TestIssuerWithoutScheme: one issuer is known to leave out the scheme of its URL.
func TestIssuerWithoutScheme(t *testing.T) {
	i := newIssuer(keyRSA())
	i.url = ""
	c := basic()
	c.Issuer.URL = "https://accounts.google.com"
	v := start(t, i, c, oidc.Options{})
	for from, good := range map[string]bool{"accounts.google.com": true, "https://accounts.google.com": true, "mail.google.com": false} {
		if _, err := v.Verify(t.Context(), keyRSA().sign(claims(map[string]any{"iss": from}))); (err == nil) != good {
			t.Errorf("%s: %v", from, err)
		}
	}
}

// TestManyIssuers: claims are accepted from 64 other issuers, and no more.
func TestManyIssuers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := newIssuer(keyRSA())
		i.url = ""
		c := basic()
		c.ClaimMappings.Groups = oidc.PrefixedClaimOrExpression{Claim: "groups", Prefix: new("")}
		v := start(t, i, c, oidc.Options{})
		verify := func(n int) error {
			path := fmt.Sprint("/", n)
			i.answer(path, keyRSA().sign(claims(map[string]any{"iss": fmt.Sprintf("https://other-%d", n), "groups": "g"})))
			_, err := v.Verify(t.Context(), keyRSA().sign(claims(elsewhere(path))))
			return err
		}
		for range 2 {
			for n := range 66 {
				if err := verify(n); err == nil && n >= 64 {
					t.Errorf("claims of issuer %d are accepted", n)
				}
			}
			time.Sleep(time.Second)
		}
		for n := range 66 {
			if err := verify(n); (err == nil) != (n < 64) {
				t.Errorf("issuer %d: %v", n, err)
			}
		}
	})
}

// elsewhere are the claims of a token whose groups are at a path of the issuer.
func elsewhere(path string) map[string]any {
	return map[string]any{
		"_claim_names":   map[string]string{"groups": "src"},
		"_claim_sources": map[string]any{"src": map[string]string{"endpoint": issuerURL + path, "access_token": "t"}},
	}
}

// TestDistributed: the groups of a user may be elsewhere, signed by the same issuer or another.
func TestDistributed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := newIssuer(keyRSA())
		c := basic()
		c.ClaimMappings.Groups = oidc.PrefixedClaimOrExpression{Claim: "groups", Prefix: new("g:")}
		var log bytes.Buffer
		v := start(t, i, c, oidc.Options{Log: slog.New(slog.NewTextHandler(&log, nil))})
		i.answer("/groups", keyRSA().sign(claims(map[string]any{"groups": []string{"a"}})))
		i.answer("/none", keyRSA().sign(claims(nil)))
		i.answer("/forged", keyNext().sign(claims(map[string]any{"groups": []string{"root"}})))
		i.answer("/elsewhere", keyRSA().sign(claims(map[string]any{"iss": "https://other", "groups": []string{"b"}})))
		i.answer("/JSON", ` {"iss":"a.b.c"}`)
		i.answer("/short", "a.b")
		i.answer("/undecodable", "a.!.c")
		i.answer("/wrong", "a.MQ.c")
		i.answer("/expired", keyRSA().sign(claims(map[string]any{"exp": 1, "groups": "g"})))
		both := elsewhere("/groups")
		both["groups"] = "c"
		untrusted := "oidc: could not expand distributed claims: getting untrusted issuer from endpoint https://issuer.example.com"
		for name, tt := range map[string]struct {
			claims map[string]any
			groups []string
			fails  string
		}{
			"elsewhere":      {elsewhere("/groups"), []string{"g:a"}, ""},
			"both":           {both, []string{"g:c"}, ""},
			"aggregated":     {map[string]any{"_claim_names": map[string]string{"groups": "src"}, "_claim_sources": map[string]any{"src": map[string]string{"JWT": "x"}}}, nil, ""},
			"another claim":  {map[string]any{"_claim_names": map[string]string{"x": "src"}, "_claim_sources": map[string]any{"src": map[string]string{"endpoint": "https://x"}}}, nil, ""},
			"no sources":     {map[string]any{"_claim_names": map[string]string{"groups": "src"}}, nil, "oidc: verify token: oidc: source does not exist"},
			"no source":      {map[string]any{"_claim_names": map[string]string{"groups": ""}}, nil, "oidc: verify token: oidc: failed to obtain source from claim name"},
			"bad names":      {map[string]any{"_claim_names": 1}, nil, "oidc: verify token: oidc: failed to unmarshal claims: json: cannot unmarshal number into Go struct field idToken._claim_names of type map[string]string"},
			"not found":      {elsewhere("/nowhere"), nil, `oidc: could not expand distributed claims: while getting distributed claim "groups": error while getting distributed claim JWT: 404 Not Found`},
			"no groups":      {elsewhere("/none"), nil, `oidc: could not expand distributed claims: jwt returned by distributed claim endpoint "https://issuer.example.com/none" did not contain claim: groups`},
			"forged":         {elsewhere("/forged"), nil, "oidc: could not expand distributed claims: verify distributed claim token: failed to verify signature: failed to verify id token signature"},
			"JSON":           {elsewhere("/JSON"), nil, untrusted + `/JSON failed for claim "groups": token is not compact JWT`},
			"short":          {elsewhere("/short"), nil, untrusted + `/short failed for claim "groups": malformed token`},
			"undecodable":    {elsewhere("/undecodable"), nil, untrusted + `/undecodable failed for claim "groups": error decoding token: illegal base64 data`},
			"wrong":          {elsewhere("/wrong"), nil, untrusted + `/wrong failed for claim "groups": while unmarshaling token: json: cannot unmarshal number`},
			"expired":        {elsewhere("/expired"), nil, "oidc: could not expand distributed claims: verify distributed claim token: oidc: token is expired"},
			"unreachable":    {map[string]any{"_claim_names": map[string]string{"groups": "src"}, "_claim_sources": map[string]any{"src": map[string]string{"endpoint": "https://%"}}}, nil, `oidc: could not expand distributed claims: while getting distributed claim "groups": parse "https://%"`},
			"another issuer": {elsewhere("/elsewhere"), nil, `oidc: could not expand distributed claims: verifying untrusted issuer https://other failed: verifier not initialized for issuer: "https://other"`},
		} {
			id, err := v.Verify(t.Context(), keyRSA().sign(claims(tt.claims)))
			switch {
			case tt.fails != "" && (err == nil || !strings.HasPrefix(err.Error(), tt.fails)):
				t.Errorf("%s: %+v, %v", name, id, err)
			case tt.fails == "" && (err != nil || !reflect.DeepEqual(id.Groups, tt.groups)):
				t.Errorf("%s: %+v, %v", name, id, err)
			}
		}
		synctest.Wait()
		i.mu.Lock()
		if i.bearer["/groups"] != "Bearer t" || i.bearer["/keys"] != "" {
			t.Errorf("asked with %q", i.bearer)
		}
		i.mu.Unlock()
		if text := log.String(); !strings.Contains(text, "async token verifier") || !strings.Contains(text, "issuer=https://other") || !strings.Contains(text, "issuer did not match") {
			t.Error(text)
		}
		// Another issuer is asked for its keys and then known.
		i.mu.Lock()
		i.url = "https://other"
		i.mu.Unlock()
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if id, err := v.Verify(t.Context(), keyRSA().sign(claims(elsewhere("/elsewhere")))); err != nil || !reflect.DeepEqual(id.Groups, []string{"g:b"}) {
			t.Errorf("another issuer: %+v, %v", id, err)
		}
	})
}

// upper is a compiler whose expressions are names of claims, or fail.
type upper struct{}

func (upper) Claims(text string, condition bool) (oidc.Expression, error) {
	if condition && strings.HasPrefix(text, "value") || !condition && strings.HasPrefix(text, "condition") {
		return nil, errors.New("it is of the other kind")
	}
	return compiled(text)
}

func (upper) User(text string) (oidc.Expression, error) { return compiled(text) }

func compiled(text string) (oidc.Expression, error) {
	if text == "" || strings.HasPrefix(text, "wrong") {
		return expression(text), errors.New("compilation failed")
	}
	return expression(text), nil
}

type expression string

func (e expression) Selects(name string) bool { return strings.Contains(string(e), name+";") }

func (e expression) Evaluate(_ context.Context, on oidc.Variables) (any, error) {
	switch {
	case e == "fail":
		return nil, errors.New("it failed")
	case e == "name":
		return on.User.Name == "ann", nil
	case on.Claims == nil:
		return nil, errors.New("no claims")
	}
	return map[expression]any{"true": true, "false": false, "text": "ann", "empty": "", "null": nil, "number": 1, "list": []any{"a", "", "b"}, "numbers": []any{1}}[e], nil
}

// TestExpressions: what expressions return is checked.
func TestExpressions(t *testing.T) {
	i := newIssuer(keyRSA())
	m := func(name, groups, uid, extra string) oidc.ClaimMappings {
		all := oidc.ClaimMappings{
			Username: oidc.PrefixedClaimOrExpression{Expression: name}, Groups: oidc.PrefixedClaimOrExpression{Expression: groups},
			UID: oidc.ClaimOrExpression{Expression: uid},
		}
		if extra != "" {
			all.Extra = []oidc.ExtraMapping{{Key: "example.com/x", ValueExpression: extra}}
		}
		return all
	}
	for name, tt := range map[string]struct {
		mappings oidc.ClaimMappings
		claims   string
		user     string
		want     authn.Identity
		fails    string
	}{
		"all":           {m("text", "list", "text", "list"), "true", "name", authn.Identity{Name: "ann", Groups: []string{"a", "b"}, UID: "ann", Extra: map[string][]string{"example.com/x": {"a", "b"}}}, ""},
		"nothing":       {m("text", "null", "empty", "empty"), "", "", authn.Identity{Name: "ann"}, ""},
		"one":           {m("text", "text", "", "text"), "", "", authn.Identity{Name: "ann", Groups: []string{"ann"}, Extra: map[string][]string{"example.com/x": {"ann"}}}, ""},
		"no name":       {m("empty", "", "", ""), "", "", authn.Identity{}, "oidc: empty username via CEL expression is not allowed"},
		"bad name":      {m("list", "", "", ""), "", "", authn.Identity{}, "oidc: error evaluating username claim expression: username claim expression must return a string"},
		"failed name":   {m("fail", "", "", ""), "", "", authn.Identity{}, "oidc: error evaluating username claim expression: it failed"},
		"bad groups":    {m("text", "number", "", ""), "", "", authn.Identity{}, "oidc: error evaluating group claim expression: expression must return a string or a list of strings"},
		"bad group":     {m("text", "numbers", "", ""), "", "", authn.Identity{}, "oidc: error evaluating group claim expression: expression must return a string or a list of strings"},
		"failed groups": {m("text", "fail", "", ""), "", "", authn.Identity{}, "oidc: error evaluating group claim expression: it failed"},
		"bad UID":       {m("text", "", "null", ""), "", "", authn.Identity{}, "oidc: error evaluating uid claim expression: uid claim expression must return a string"},
		"failed UID":    {m("text", "", "fail", ""), "", "", authn.Identity{}, "oidc: error evaluating uid claim expression: it failed"},
		"bad extra":     {m("text", "", "", "number"), "", "", authn.Identity{}, "oidc: error evaluating extra claim expression: number: expression must return a string or a list of strings"},
		"failed extra":  {m("text", "", "", "fail"), "", "", authn.Identity{}, "it failed"},
		"claims":        {m("text", "", "", ""), "false", "", authn.Identity{}, "oidc: error evaluating claim validation expression: validation expression 'false' failed: said so"},
		"bad claims":    {m("text", "", "", ""), "text", "", authn.Identity{}, "oidc: error evaluating claim validation expression: validation expression must return a boolean"},
		"failed claims": {m("text", "", "", ""), "fail", "", authn.Identity{}, "oidc: error evaluating claim validation expression: it failed"},
		"failed user":   {m("text", "", "", ""), "", "fail", authn.Identity{}, "oidc: error evaluating user info validation rule: it failed"},
	} {
		c := basic()
		c.ClaimMappings = tt.mappings
		if tt.claims != "" {
			c.ClaimValidationRules = []oidc.ClaimValidationRule{{Expression: tt.claims, Message: "said so"}}
		}
		if tt.user != "" {
			c.UserValidationRules = []oidc.UserValidationRule{{Expression: tt.user}}
		}
		v := start(t, i, c, oidc.Options{Compiler: upper{}})
		id, err := v.Verify(t.Context(), keyRSA().sign(claims(nil)))
		switch {
		case tt.fails != "" && (err == nil || err.Error() != tt.fails):
			t.Errorf("%s: %+v, %v", name, id, err)
		case tt.fails == "" && (err != nil || !reflect.DeepEqual(*id, tt.want)):
			t.Errorf("%s: %+v, %v", name, id, err)
		}
	}
}

// TestNew: conformance/authentication compares all messages with upstream's.
func TestNew(t *testing.T) {
	for want, change := range map[string]func(*oidc.Config, *oidc.Options){
		`issuer.url: Required value`:                                                          func(c *oidc.Config, _ *oidc.Options) { c.Issuer.URL = "" },
		`issuer.url: Invalid value: "http://x": URL scheme must be https`:                     func(c *oidc.Config, _ *oidc.Options) { c.Issuer.URL = "http://x" },
		`URL must not overlap with disallowed issuers: [https://issuer.example.com]`:          func(_ *oidc.Config, o *oidc.Options) { o.DisallowedIssuers = []string{issuerURL} },
		`issuer.audiences: Required value: at least one issuer.audiences is required`:         func(c *oidc.Config, _ *oidc.Options) { c.Issuer.Audiences = nil },
		`data does not contain any valid RSA or ECDSA certificates`:                           func(c *oidc.Config, _ *oidc.Options) { c.Issuer.CertificateAuthority = "x" },
		`egress selector is not supported`:                                                    func(c *oidc.Config, _ *oidc.Options) { c.Issuer.EgressSelectorType = "cluster" },
		`oidc: unsupported signing alg: "HS256"`:                                              func(_ *oidc.Config, o *oidc.Options) { o.SigningAlgorithms = []string{"HS256"} },
		`claimMappings.username.prefix: Required value: prefix is required when claim is set`: func(c *oidc.Config, _ *oidc.Options) { c.ClaimMappings.Username.Prefix = nil },
		`userValidationRules[0].expression: Invalid value: "true": expressions are not supported here`: func(c *oidc.Config, _ *oidc.Options) {
			c.UserValidationRules = []oidc.UserValidationRule{{Expression: "true"}}
		},
		`claimMappings.uid.expression: Invalid value: "true": expressions are not supported here`: func(c *oidc.Config, _ *oidc.Options) { c.ClaimMappings.UID.Expression = "true" },
		`claimValidationRules[0].expression: Invalid value: "wrong": compilation failed`: func(c *oidc.Config, o *oidc.Options) {
			o.Compiler, c.ClaimValidationRules = upper{}, []oidc.ClaimValidationRule{{Expression: "wrong"}}
		},
		`claims.email_verified must be used in claimMappings.username.expression`: func(c *oidc.Config, o *oidc.Options) {
			o.Compiler, c.ClaimMappings.Username = upper{}, oidc.PrefixedClaimOrExpression{Expression: "email;"}
		},
	} {
		c, o := basic(), oidc.Options{}
		change(&c, &o)
		if _, err := oidc.New(c, o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
	c := basic()
	c.Issuer.URL = ""
	if errs := c.Validate(field.NewPath("jwt").Index(2), nil, nil); len(errs) != 1 || errs[0].Field != "jwt[2].issuer.url" {
		t.Errorf("%v", errs)
	}
	for _, where := range []func(*oidc.Config){
		func(c *oidc.Config) { c.ClaimMappings.Username.Expression += "email_verified;" },
		func(c *oidc.Config) {
			c.ClaimValidationRules = []oidc.ClaimValidationRule{{Expression: "email_verified;"}}
		},
		func(c *oidc.Config) {
			c.ClaimMappings.Extra = []oidc.ExtraMapping{{Key: "example.com/x", ValueExpression: "email_verified;"}}
		},
	} {
		c := basic()
		c.ClaimMappings.Username = oidc.PrefixedClaimOrExpression{Expression: "email;"}
		where(&c)
		if _, err := oidc.New(c, oidc.Options{Compiler: upper{}}); err != nil {
			t.Error(err)
		}
	}
}
