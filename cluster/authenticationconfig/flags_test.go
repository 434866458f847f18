package authenticationconfig_test

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/keelson-dev/keelson/authn"
	"github.com/keelson-dev/keelson/cluster/authenticationconfig"
)

func TestFlags(t *testing.T) {
	file := write(t, head)
	for want, f := range map[string]authenticationconfig.Flags{
		"oidc-issuer-url and oidc-client-id must be specified together when any oidc-* flags are set": {GroupsClaim: "groups"},
		"jwt[0].issuer.url: Invalid value: \"http://x\": URL scheme must be https":                    {IssuerURL: "http://x", ClientID: "api"},
		"no such file":                          {IssuerURL: "https://x", ClientID: "api", CAFile: "/nowhere"},
		`oidc: unsupported signing alg: "none"`: {IssuerURL: "https://x", ClientID: "api", SigningAlgs: []string{"none"}},
	} {
		if _, err := f.Open("", authenticationconfig.Options{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
	var none authenticationconfig.Flags
	if a, err := none.Open("", authenticationconfig.Options{}); a != nil || err != nil {
		t.Errorf("%v, %v", a, err)
	}
	if a, err := none.Open(file, authenticationconfig.Options{}); a == nil || err != nil {
		t.Errorf("%v, %v", a, err)
	}
	for name, both := range map[string]authenticationconfig.Flags{
		"issuer": {IssuerURL: "x"}, "client": {ClientID: "x"}, "authority": {CAFile: "x"}, "name": {UsernameClaim: "x"}, "prefix": {UsernamePrefix: "x"}, "groups": {GroupsClaim: "x"},
		"groups' prefix": {GroupsPrefix: "x"}, "algorithms": {SigningAlgs: []string{"RS256"}}, "claims": {RequiredClaims: map[string]string{"x": "y"}},
	} {
		if _, err := both.Open(file, authenticationconfig.Options{}); !errors.Is(err, authenticationconfig.ErrFlags) || !strings.Contains(err.Error(), "authentication-config file and oidc-* flags are mutually exclusive") {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := both.Open("", authenticationconfig.Options{}); !errors.Is(err, authenticationconfig.ErrFlags) || !strings.Contains(err.Error(), "oidc-issuer-url and oidc-client-id must be specified together") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := none.RequiredClaim("x"); err == nil || err.Error() != "malformed pair, expect string=string" {
		t.Error(err)
	}
}

// TestFlagNames: names have the issuer in front unless that is switched off.
func TestFlagNames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		world := newIssuers(t)
		for prefix, want := range map[string]string{"": "https://a.example.com#ann", "-": "ann", "x:": "x:ann"} {
			f := authenticationconfig.Flags{IssuerURL: "https://a.example.com", ClientID: "api", UsernamePrefix: prefix, SigningAlgs: []string{"ES256"}}
			for _, text := range []string{"aud = api", " iss=https://a.example.com "} {
				if err := f.RequiredClaim(text); err != nil {
					t.Fatal(err)
				}
			}
			a, err := f.Open("", authenticationconfig.Options{Client: world.client()})
			if err != nil {
				t.Fatal(err)
			}
			run(t, a)
			synctest.Wait()
			if id, err := a.Verify(t.Context(), world.token(t, "a.example.com", "ann")); err != nil || id.Name != want {
				t.Errorf("%q: %+v, %v", prefix, id, err)
			}
			if err := f.RequiredClaim("sub=bob"); err != nil {
				t.Fatal(err)
			}
			if a, err = f.Open("", authenticationconfig.Options{Client: world.client()}); err != nil {
				t.Fatal(err)
			}
			run(t, a)
			synctest.Wait()
			if _, err := a.Verify(t.Context(), world.token(t, "a.example.com", "ann")); err == nil || err.Error() != "oidc: required claim sub value does not match. Got = ann, want = bob" {
				t.Error(err)
			}
		}
	})
}

// TestFlagClaims: names and groups may be in other claims, and only RS256 signs if nothing is said.
func TestFlagClaims(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		world := newIssuers(t)
		token := world.sign(t, map[string]any{"iss": "https://a.example.com", "aud": "api", "sub": "1", "email": "ann@b", "roles": []string{"r"}, "exp": time.Now().Add(time.Hour).Unix()})
		for _, tt := range []struct {
			flags authenticationconfig.Flags
			want  authn.Identity
		}{
			{authenticationconfig.Flags{}, authn.Identity{Name: "https://a.example.com#1"}},
			{authenticationconfig.Flags{UsernameClaim: "email"}, authn.Identity{Name: "ann@b"}},
			{authenticationconfig.Flags{UsernameClaim: "email", UsernamePrefix: "x:"}, authn.Identity{Name: "x:ann@b"}},
			{authenticationconfig.Flags{UsernameClaim: "email", UsernamePrefix: "-"}, authn.Identity{Name: "ann@b"}},
			{authenticationconfig.Flags{UsernamePrefix: "-", GroupsClaim: "roles"}, authn.Identity{Name: "1", Groups: []string{"r"}}},
			{authenticationconfig.Flags{UsernamePrefix: "-", GroupsClaim: "roles", GroupsPrefix: "g:"}, authn.Identity{Name: "1", Groups: []string{"g:r"}}},
		} {
			f := tt.flags
			f.IssuerURL, f.ClientID, f.SigningAlgs = "https://a.example.com", "api", []string{"ES256"}
			a, err := f.Open("", authenticationconfig.Options{Client: world.client()})
			if err != nil {
				t.Fatal(err)
			}
			run(t, a)
			synctest.Wait()
			if id, err := a.Verify(t.Context(), token); err != nil || !reflect.DeepEqual(*id, tt.want) {
				t.Errorf("%+v: %+v, %v", tt.flags, id, err)
			}
		}
		f := authenticationconfig.Flags{IssuerURL: "https://a.example.com", ClientID: "api"}
		a, err := f.Open("", authenticationconfig.Options{Client: world.client()})
		if err != nil {
			t.Fatal(err)
		}
		run(t, a)
		synctest.Wait()
		if id, err := a.Verify(t.Context(), token); err == nil || !strings.Contains(err.Error(), `expected ["RS256"] got "ES256"`) {
			t.Errorf("%+v, %v", id, err)
		}
	})
}

// TestFlagAuthority: the issuer's certificate may be of an authority of its own.
func TestFlagAuthority(t *testing.T) {
	f := authenticationconfig.Flags{IssuerURL: "https://a.example.com", ClientID: "api", CAFile: write(t, "x")}
	if _, err := f.Open("", authenticationconfig.Options{}); err == nil || !strings.Contains(err.Error(), "jwt[0].issuer.certificateAuthority: Invalid value") {
		t.Error(err)
	}
}
