package serviceaccount_test

import (
	"crypto/elliptic"
	"testing"

	"github.com/keelson-dev/keelson/authn"
)

// Verification of a token that is known already, and of tokens that are new.
func BenchmarkVerify(b *testing.B) {
	for alg, key := range map[string]func(testing.TB) *world{
		"RS256": func(t testing.TB) *world { return newWorld(t, rsaKey()) },
		"ES256": func(t testing.TB) *world { return newWorld(t, newEC(t, elliptic.P256())) },
	} {
		w := key(b)
		b.Run(alg+"/known", func(b *testing.B) {
			token := w.issue(b, podClaims())
			b.ReportAllocs()
			for b.Loop() {
				if _, err := w.verifier.Verify(b.Context(), token); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(alg+"/new", func(b *testing.B) {
			tokens := make([]string, 8200) // more than are remembered
			for i := range tokens {
				c := podClaims()
				c.ID = ""
				tokens[i] = w.issue(b, c)
			}
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				if _, err := w.verifier.Verify(b.Context(), tokens[i%len(tokens)]); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(alg+"/issue", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := w.issuer.Issue(b.Context(), authn.Claims{Namespace: "default", ServiceAccount: authn.Ref{Name: "web", UID: "sa-1"}}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
