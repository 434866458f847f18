package authenticationconfig_test

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"

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
	both := authenticationconfig.Flags{SigningAlgs: []string{"RS256"}}
	if _, err := both.Open(file, authenticationconfig.Options{}); !errors.Is(err, authenticationconfig.ErrFlags) || !strings.Contains(err.Error(), "authentication-config file and oidc-* flags are mutually exclusive") {
		t.Error(err)
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
			if err := f.RequiredClaim("aud = api"); err != nil {
				t.Fatal(err)
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
			f.RequiredClaims["sub"] = "bob"
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
