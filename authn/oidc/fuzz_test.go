package oidc_test

import (
	"encoding/json"
	"testing"

	"github.com/keelson-dev/keelson/authn/oidc"
)

// FuzzVerify: no token that the issuer did not sign gets through, whatever it looks like.
func FuzzVerify(f *testing.F) {
	v := start(f, newIssuer(keyRSA()), basic(), oidc.Options{})
	good := keyRSA().sign(claims(nil))
	f.Add(good)
	f.Add(forge(map[string]any{"alg": "none"}, claims(nil), ""))
	f.Add(key{"rsa", "HS256", []byte("secret-secret-secret-secret-secret")}.sign(claims(nil)))
	f.Add("..")
	f.Fuzz(func(t *testing.T, token string) {
		if id, err := v.Verify(t.Context(), token); (err == nil) == (id == nil) || err == nil && token != good {
			t.Errorf("%q: %+v, %v", token, id, err)
		}
	})
}

// FuzzClaims: whatever an issuer signs is either a user with a name or refused.
func FuzzClaims(f *testing.F) {
	c := basic()
	c.ClaimMappings.Groups = oidc.PrefixedClaimOrExpression{Claim: "groups", Prefix: new("g:")}
	v := start(f, newIssuer(keyEC()), c, oidc.Options{SigningAlgorithms: []string{"ES256"}})
	f.Add([]byte(`{"groups":["a"],"jti":"x"}`))
	f.Add([]byte(`{"exp":1e400,"aud":{}}`))
	f.Add([]byte(`{"_claim_names":{"groups":"x"},"_claim_sources":{"x":{"endpoint":"https://issuer.example.com/keys"}}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var some map[string]any
		if json.Unmarshal(data, &some) != nil {
			return
		}
		all := claims(some)
		id, err := v.Verify(t.Context(), keyEC().sign(all))
		if (err == nil) == (id == nil) || err == nil && (id.Name == "" || all["sub"] == nil || all["exp"] == nil) {
			t.Errorf("%s: %+v, %v", data, id, err)
		}
	})
}
