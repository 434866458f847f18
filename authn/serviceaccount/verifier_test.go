package serviceaccount_test

import (
	"context"
	"crypto"
	"crypto/elliptic"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	jose "github.com/go-jose/go-jose/v4"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/authn"
	"github.com/keelson-dev/keelson/authn/authntest"
	"github.com/keelson-dev/keelson/authn/serviceaccount"
	"github.com/keelson-dev/keelson/authn/token"
)

func bearer(tok string) *http.Request {
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.Header.Set("Authorization", "Bearer "+tok)
	return r
}

// web is who the account is, with extra attributes given as key and value in turn.
func web(extra ...string) authn.Identity {
	id := authn.Identity{
		Name: "system:serviceaccount:default:web", UID: "sa-1",
		Groups: []string{"system:serviceaccounts", "system:serviceaccounts:default"},
		Extra:  map[string][]string{"authentication.kubernetes.io/credential-id": {"JTI=" + jti}}, Audiences: []string{"api"},
	}
	for i := 0; i < len(extra); i += 2 {
		id.Extra["authentication.kubernetes.io/"+extra[i]] = []string{extra[i+1]}
	}
	return id
}

func signingKeys(t testing.TB) map[string]crypto.Signer {
	return map[string]crypto.Signer{
		"RS256": rsaKey(), "ES256": newEC(t, elliptic.P256()), "ES384": newEC(t, elliptic.P384()), "ES512": newEC(t, elliptic.P521()),
	}
}

func TestContract(t *testing.T) {
	for alg, key := range signingKeys(t) {
		t.Run(alg, func(t *testing.T) {
			w := newWorld(t, key)
			auth := token.New(w.verifier)
			secret, node, gone, two := claims(), claims(), podClaims(), claims()
			secret.Secret = &authn.Ref{Name: "hold", UID: "secret-1"}
			node.Node = &authn.Ref{Name: "node-0", UID: "node-1"}
			gone.Node = &authn.Ref{Name: "node-9"} // a pod's token only tells its node
			two.Audiences = []string{"vault", "also", "api"}
			wantTwo := web()
			wantTwo.Audiences = []string{"api", "also"}
			both, nobody := podClaims(), claims()
			both.Secret = secret.Secret
			nobody.ServiceAccount.Name = ""
			authntest.RunIssuer(t, w.issuer, auth, authntest.IssuerSamples{
				Good: []authntest.Issued{
					{Claims: claims(), Want: web()},
					{Claims: podClaims(), Want: web("pod-name", "web-0", "pod-uid", "pod-1", "node-name", "node-0", "node-uid", "node-1")},
					{Claims: gone, Want: web("pod-name", "web-0", "pod-uid", "pod-1", "node-name", "node-9")},
					{Claims: node, Want: web("node-name", "node-0", "node-uid", "node-1")},
					{Claims: secret, Want: web()},
					{Claims: two, Want: wantTwo},
				},
				Bad: []authn.Claims{both, nobody, {}},
			})
			lost := podClaims()
			lost.Pod.UID = "pod-0"
			authntest.Run(t, auth, authntest.Samples{
				Good:    []authntest.Sample{{Request: bearer(w.issue(t, claims())), Want: web()}},
				Bad:     []*http.Request{bearer(w.issue(t, lost)), bearer("opaque"), bearer("a.b.c")},
				Foreign: []*http.Request{httptest.NewRequest(http.MethodGet, "/", nil)},
			})
		})
	}
}

// A token is refused for one reason, which the error tells in upstream's words.
func TestRefusals(t *testing.T) {
	key := newEC(t, elliptic.P256())
	w := newWorld(t, key)
	other := must(serviceaccount.NewIssuer("https://other", w.keys))(t)
	unknown := must(serviceaccount.NewIssuer(issuerURL, must(serviceaccount.NewKeys(newEC(t, elliptic.P256())))(t)))(t)
	change := func(f func(*authn.Claims)) string {
		c := podClaims()
		f(&c)
		return w.issue(t, c)
	}
	deleted := metav1.NewTime(time.Now().Add(-2 * time.Minute))
	w.pods.set(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "old", UID: "pod-2", DeletionTimestamp: &deleted}})
	w.accounts.set(&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "old", UID: "sa-2", DeletionTimestamp: &deleted}})
	short := strings.Repeat("x", 30)
	for name, c := range map[string]struct {
		token string
		want  error
		text  string
	}{
		"opaque":           {short, authn.ErrNoCredentials, "no credentials"},
		"not a JWT":        {"a.b.c", authn.ErrNoCredentials, "no credentials"},
		"another issuer":   {must(other.Issue(t.Context(), claims()))(t), serviceaccount.ErrIssuer, `no credentials: unknown token issuer "https://other"`},
		"unsigned":         {unsigned(t, `{"alg":"none"}`), serviceaccount.ErrSignature, `invalid signature, algorithm "none"`},
		"symmetric":        {unsigned(t, `{"alg":"HS256"}`), serviceaccount.ErrSignature, `invalid signature, algorithm "HS256"`},
		"no header":        {unsigned(t, `[]`), serviceaccount.ErrMalformed, "no credentials: malformed service account token"},
		"unknown key":      {must(unknown.Issue(t.Context(), claims()))(t), serviceaccount.ErrUnknownKey, "invalid signature, no keys found"},
		"no such key":      {unsigned(t, `{"alg":"ES256"}`), serviceaccount.ErrSignature, "invalid signature"},
		"other algorithm":  {unsigned(t, `{"alg":"RS256"}`), serviceaccount.ErrSignature, "invalid signature"},
		"audience":         {change(func(c *authn.Claims) { c.Audiences = []string{"vault"} }), serviceaccount.ErrAudience, `token audiences ["vault"] is invalid for the target audiences ["api" "also"]`},
		"expired":          {change(func(c *authn.Claims) { c.Expires = time.Now().Add(-2 * time.Minute) }), serviceaccount.ErrExpired, "service account token has expired"},
		"from the future":  {change(func(c *authn.Claims) { c.IssuedAt = time.Now().Add(2 * time.Minute) }), serviceaccount.ErrNotYetValid, "service account token is not valid yet"},
		"no account":       {change(func(c *authn.Claims) { c.ServiceAccount.Name = "x" }), serviceaccount.ErrInvalidated, `serviceaccounts "x" not found`},
		"another account":  {change(func(c *authn.Claims) { c.ServiceAccount.UID = "sa-0" }), serviceaccount.ErrInvalidated, "service account UID (sa-1) does not match claim (sa-0)"},
		"deleted account":  {change(func(c *authn.Claims) { c.ServiceAccount = authn.Ref{Name: "old", UID: "sa-2"} }), serviceaccount.ErrInvalidated, "service account default/old has been deleted"},
		"no pod":           {change(func(c *authn.Claims) { c.Pod.Name = "x" }), serviceaccount.ErrInvalidated, "service account token has been invalidated: pod default/x does not exist"},
		"another pod":      {change(func(c *authn.Claims) { c.Pod.UID = "pod-0" }), serviceaccount.ErrInvalidated, "pod UID (pod-1) does not match service account pod ref claim (pod-0)"},
		"deleted pod":      {change(func(c *authn.Claims) { c.Pod = &authn.Ref{Name: "old", UID: "pod-2"} }), serviceaccount.ErrInvalidated, "service account token has been invalidated: pod default/old is deleted and awaiting removal"},
		"no node":          {change(func(c *authn.Claims) { c.Pod, c.Node.Name = nil, "x" }), serviceaccount.ErrInvalidated, "service account token has been invalidated: node x does not exist"},
		"another secret":   {change(func(c *authn.Claims) { c.Pod, c.Node, c.Secret = nil, nil, &authn.Ref{Name: "hold"} }), serviceaccount.ErrInvalidated, "secret UID (secret-1) does not match service account secret ref claim ()"},
		"a pod of nowhere": {change(func(c *authn.Claims) { c.Namespace = "kube-system" }), serviceaccount.ErrInvalidated, `serviceaccounts "web" not found`},
	} {
		t.Run(name, func(t *testing.T) {
			for range 2 { // the second time, the signature may be remembered
				id, err := w.verifier.Verify(t.Context(), c.token)
				if id != nil || !errors.Is(err, c.want) || err.Error() != c.text {
					t.Errorf("got %v, %v; want %s", id, err, c.text)
				}
				if err != nil && strings.Contains(err.Error(), c.token) {
					t.Errorf("the error tells the token: %v", err)
				}
			}
		})
	}
}

// unsigned is a token with a header and a signature of the test's own making.
func unsigned(t *testing.T, header string) string {
	t.Helper()
	body := must(json.Marshal(map[string]any{"iss": issuerURL, "aud": "api", "kubernetes.io": map[string]any{"namespace": "default", "serviceaccount": map[string]string{"name": "web", "uid": "sa-1"}}}))(t)
	enc := base64.RawURLEncoding.EncodeToString
	return enc([]byte(header)) + "." + enc(body) + "." + enc(make([]byte, 64))
}

// What upstream's own tokens look like that are not made here: audience as a string, no key ID,
// fractions of seconds, and nothing that ends them.
func TestTokensOfOthers(t *testing.T) {
	key := newEC(t, elliptic.P256())
	w := newWorld(t, key)
	signer := must(jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: key}, nil))(t)
	const about = `"kubernetes.io":{"namespace":"default","serviceaccount":{"name":"web","uid":"sa-1"}}`
	for name, c := range map[string]struct {
		body, want string
	}{
		"audience as a string":    {`{"iss":"` + issuerURL + `","aud":"also",` + about + `}`, "also"},
		"no audience":             {`{"iss":"` + issuerURL + `",` + about + `}`, "api also"},
		"a fraction of a second":  {fmt.Sprintf(`{"iss":%q,"aud":["api"],"exp":%d.7,%s}`, issuerURL, time.Now().Add(time.Minute).Unix(), about), "api"},
		"a date that overflows":   {`{"iss":"` + issuerURL + `","aud":["api"],"nbf":1e300,` + about + `}`, "malformed service account token: claims do not decode"},
		"audiences of many kinds": {`{"iss":"` + issuerURL + `","aud":[1],` + about + `}`, "malformed service account token: claims do not decode"},
		"nobody":                  {`{"iss":"` + issuerURL + `","aud":["api"]}`, `serviceaccounts "" not found`},
	} {
		t.Run(name, func(t *testing.T) {
			tok := must(must(signer.Sign([]byte(c.body)))(t).CompactSerialize())(t)
			id, err := w.verifier.Verify(t.Context(), tok)
			var got string
			if err != nil {
				got = err.Error()
			} else {
				got = strings.Join(id.Audiences, " ")
			}
			if got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestTime(t *testing.T) {
	key := newEC(t, elliptic.P256())
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, key)
		var stale []string
		verifier := must(serviceaccount.NewVerifier([]string{issuerURL}, w.keys, w.sources(), serviceaccount.Options{
			Audiences: []string{"api"},
			Annotate:  func(_ context.Context, key, value string) { stale = append(stale, key+" "+value) },
		}))(t)
		c := podClaims()
		c.WarnAfter = time.Now().Add(30 * time.Minute)
		tok := w.issue(t, c)
		verify := func(after time.Duration, want error) {
			t.Helper()
			time.Sleep(after)
			if _, err := verifier.Verify(t.Context(), tok); !errors.Is(err, want) {
				t.Errorf("after %v: %v, want %v", time.Since(c.IssuedAt), err, want)
			}
		}
		verify(0, nil)
		verify(40*time.Minute, nil)
		verify(20*time.Minute+59*time.Second, nil) // clocks may be a minute apart
		verify(2*time.Second, serviceaccount.ErrExpired)
		if want := []string{
			"authentication.k8s.io/stale-token subject: system:serviceaccount:default:web, seconds after warning threshold: 600",
			"authentication.k8s.io/stale-token subject: system:serviceaccount:default:web, seconds after warning threshold: 1859",
		}; !reflect.DeepEqual(stale, want) {
			t.Errorf("stale uses %q, want %q", stale, want)
		}
	})
}

// A token ends with its pod: when the pod is gone, or a minute after its grace.
func TestPodEnds(t *testing.T) {
	key := newEC(t, elliptic.P256())
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, key)
		tok := w.issue(t, podClaims())
		verify := func(want error) {
			t.Helper()
			if _, err := w.verifier.Verify(t.Context(), tok); !errors.Is(err, want) {
				t.Errorf("%v, want %v", err, want)
			}
		}
		verify(nil)
		graceful := &corev1.Pod{ObjectMeta: meta("default", "web-0", "pod-1")}
		end := metav1.NewTime(time.Now().Add(30 * time.Second))
		graceful.DeletionTimestamp = &end
		w.pods.set(graceful)
		verify(nil)
		time.Sleep(89 * time.Second)
		verify(nil)
		time.Sleep(2 * time.Second)
		verify(serviceaccount.ErrInvalidated)
		w.pods.set(&corev1.Pod{ObjectMeta: meta("default", "web-0", "pod-1")})
		verify(nil)
		w.pods.remove("default", "web-0")
		verify(serviceaccount.ErrInvalidated)
		w.pods.set(&corev1.Pod{ObjectMeta: meta("default", "web-0", "pod-2")})
		verify(serviceaccount.ErrInvalidated)
	})
}

func TestRotation(t *testing.T) {
	before, after := newEC(t, elliptic.P256()), newEC(t, elliptic.P256())
	w := newWorld(t, before)
	old := w.issue(t, claims())
	verify := func(tok string, want error) {
		t.Helper()
		for range 2 {
			if _, err := w.verifier.Verify(t.Context(), tok); !errors.Is(err, want) {
				t.Errorf("%v, want %v", err, want)
			}
		}
	}
	verify(old, nil)
	if err := w.keys.Replace(after, before.Public()); err != nil {
		t.Fatal(err)
	}
	verify(old, nil)
	verify(w.issue(t, claims()), nil)
	if err := w.keys.Replace(nil, after.Public()); err != nil {
		t.Fatal(err)
	}
	verify(old, serviceaccount.ErrUnknownKey)
	if _, err := w.issuer.Issue(t.Context(), claims()); !errors.Is(err, serviceaccount.ErrNoSigningKey) {
		t.Errorf("signed without a key: %v", err)
	}
	if err := w.keys.Replace(nil); !errors.Is(err, serviceaccount.ErrKey) {
		t.Errorf("no keys at all: %v", err)
	}
	verify(old, serviceaccount.ErrUnknownKey)
}

func TestIssuers(t *testing.T) {
	w := newWorld(t, newEC(t, elliptic.P256()))
	renamed := must(serviceaccount.NewVerifier([]string{"https://new", issuerURL}, w.keys, w.sources(), serviceaccount.Options{}))(t)
	c := claims()
	c.Audiences = []string{"https://new"}
	if id, err := renamed.Verify(t.Context(), w.issue(t, c)); err != nil || id.Audiences[0] != "https://new" {
		t.Errorf("a token of the old name: %v, %v", id, err)
	}
	for _, issuers := range [][]string{nil, {""}, {"https://ok", "http://bad url:x"}} {
		if _, err := serviceaccount.NewVerifier(issuers, w.keys, w.sources(), serviceaccount.Options{}); !errors.Is(err, serviceaccount.ErrIssuerURL) {
			t.Errorf("issuers %q: %v", issuers, err)
		}
	}
	if _, err := serviceaccount.NewIssuer("", w.keys); !errors.Is(err, serviceaccount.ErrIssuerURL) {
		t.Errorf("an issuer without a name: %v", err)
	}
	if _, err := serviceaccount.NewVerifier([]string{"x"}, w.keys, serviceaccount.Sources{}, serviceaccount.Options{}); err == nil {
		t.Error("a verifier that knows no accounts")
	}
}

// Without a source, nobody can report whether the object is there.
func TestMissingSource(t *testing.T) {
	w := newWorld(t, newEC(t, elliptic.P256()))
	few := must(serviceaccount.NewVerifier([]string{issuerURL}, w.keys, serviceaccount.Sources{ServiceAccounts: &w.accounts}, serviceaccount.Options{Audiences: []string{"api"}}))(t)
	if _, err := few.Verify(t.Context(), w.issue(t, claims())); err != nil {
		t.Errorf("a token bound to nothing: %v", err)
	}
	if _, err := few.Verify(t.Context(), w.issue(t, podClaims())); !errors.Is(err, serviceaccount.ErrInvalidated) {
		t.Errorf("a token bound to a pod: %v", err)
	}
}

func FuzzVerify(f *testing.F) {
	w := newWorld(f, newEC(f, elliptic.P256()))
	good := w.issue(f, podClaims())
	f.Add(good)
	f.Add("a.b.c")
	f.Add(strings.Replace(good, ".", ".e30.", 1))
	f.Add("eyJhbGciOiJub25lIn0." + strings.Split(good, ".")[1] + ".")
	f.Add(`{"payload":"","signatures":[]}`)
	f.Fuzz(func(t *testing.T, tok string) {
		id, err := w.verifier.Verify(t.Context(), tok)
		if (id == nil) == (err == nil) {
			t.Errorf("%q: %v, %v", tok, id, err)
		}
		if id != nil && signedPart(tok) != signedPart(good) {
			t.Errorf("%q was accepted as %v", tok, id)
		}
		if err != nil && len(tok) > 20 && strings.Contains(err.Error(), tok) {
			t.Errorf("the error tells the token: %v", err)
		}
	})
}

// signedPart is what a signature is over: the last bits of a signature's own encoding are free.
func signedPart(tok string) string {
	return tok[:max(strings.LastIndex(tok, "."), 0)]
}

// TestAudienceOfARememberedToken: who asks for another audience is not told what was found out for the server's own.
func TestAudienceOfARememberedToken(t *testing.T) {
	w := newWorld(t, newEC(t, elliptic.P256()))
	c := claims()
	c.Audiences = []string{"api", "vault"}
	both, own := w.issue(t, c), w.issue(t, claims())
	for range 2 {
		for _, tok := range []string{both, own} {
			if id, err := w.verifier.Verify(t.Context(), tok); err != nil || !reflect.DeepEqual(id.Audiences, []string{"api"}) {
				t.Errorf("for the server: %v, %v", id, err)
			}
		}
		vault := authn.WithAudiences(t.Context(), []string{"vault"})
		if id, err := w.verifier.Verify(vault, both); err != nil || !reflect.DeepEqual(id.Audiences, []string{"vault"}) {
			t.Errorf("for the vault: %v, %v", id, err)
		}
		if id, err := w.verifier.Verify(vault, own); !errors.Is(err, serviceaccount.ErrAudience) {
			t.Errorf("a token of the server's is the vault's: %v, %v", id, err)
		}
		if id, err := w.verifier.Verify(authn.WithAudiences(t.Context(), nil), own); !errors.Is(err, serviceaccount.ErrAudience) {
			t.Errorf("a token of the server's is nobody's: %v, %v", id, err)
		}
	}
}

// TestLastMoments: clocks may be a minute apart, and not a second more.
func TestLastMoments(t *testing.T) {
	key := newEC(t, elliptic.P256())
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, key)
		signer := must(jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: key}, nil))(t)
		token := func(field string, off time.Duration) string {
			body := fmt.Sprintf(`{"iss":%q,"aud":["api"],%q:%d,"kubernetes.io":{"namespace":"default","serviceaccount":{"name":"web","uid":"sa-1"}}}`,
				issuerURL, field, time.Now().Add(off).Unix())
			return must(must(signer.Sign([]byte(body)))(t).CompactSerialize())(t)
		}
		for _, c := range []struct {
			field string
			off   time.Duration
			want  error
		}{
			{"exp", -time.Minute, nil}, {"exp", -61 * time.Second, serviceaccount.ErrExpired},
			{"nbf", time.Minute, nil}, {"nbf", 61 * time.Second, serviceaccount.ErrNotYetValid},
			{"iat", time.Minute, nil}, {"iat", 61 * time.Second, serviceaccount.ErrIssuedInFuture},
		} {
			if _, err := w.verifier.Verify(t.Context(), token(c.field, c.off)); !errors.Is(err, c.want) {
				t.Errorf("%s %v: %v, want %v", c.field, c.off, err, c.want)
			}
		}
		end := metav1.NewTime(time.Now().Add(-time.Minute))
		ending := &corev1.Pod{ObjectMeta: meta("default", "web-0", "pod-1")}
		ending.DeletionTimestamp = &end
		w.pods.set(ending)
		tok := w.issue(t, podClaims())
		if _, err := w.verifier.Verify(t.Context(), tok); err != nil {
			t.Errorf("in the last moment of its pod: %v", err)
		}
		time.Sleep(time.Nanosecond)
		if _, err := w.verifier.Verify(t.Context(), tok); !errors.Is(err, serviceaccount.ErrInvalidated) {
			t.Errorf("a moment later: %v", err)
		}
	})
}
