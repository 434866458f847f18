package oidc_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	jose "github.com/go-jose/go-jose/v4"
	"go.uber.org/goleak"

	"github.com/keelson-dev/keelson/authn/oidc"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const issuerURL = "https://issuer.example.com"

// key is a key of an issuer.
type key struct {
	id        string
	algorithm jose.SignatureAlgorithm
	private   any
}

// Keys are expensive, and tests do not change them.
var (
	keyRSA  = sync.OnceValue(func() key { return key{"rsa", jose.RS256, must(rsa.GenerateKey(rand.Reader, 2048))} })
	keyNext = sync.OnceValue(func() key { return key{"next", jose.RS256, must(rsa.GenerateKey(rand.Reader, 2048))} })
	keyEC   = sync.OnceValue(func() key { return key{"ec", jose.ES256, must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))} })
)

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// sign makes a token.
func (k key) sign(claims map[string]any) string {
	signer := must(jose.NewSigner(jose.SigningKey{Algorithm: k.algorithm, Key: jose.JSONWebKey{Key: k.private, KeyID: k.id}}, nil))
	return must(must(signer.Sign(must(json.Marshal(claims)))).CompactSerialize())
}

func (k key) public() jose.JSONWebKey {
	whole := jose.JSONWebKey{Key: k.private, KeyID: k.id, Algorithm: string(k.algorithm), Use: "sig"}
	return whole.Public()
}

// issuer is a provider of OpenID Connect. Its methods may be called while it serves.
type issuer struct {
	mu      sync.Mutex
	url     string // its own; if empty it is that of the requests
	keys    []jose.JSONWebKey
	down    bool
	answers map[string]string // to other paths, and instead of its own
	fetched int               // how often its keys were fetched
	kind    string            // of the content of its answers
	bearer  map[string]string // by path: the header Authorization of the last request
}

func newIssuer(keys ...key) *issuer {
	i := &issuer{url: issuerURL, answers: map[string]string{}, kind: "application/json", bearer: map[string]string{}}
	i.rotate(keys...)
	return i
}

func (i *issuer) rotate(keys ...key) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.keys = nil
	for _, k := range keys {
		i.keys = append(i.keys, k.public())
	}
}

func (i *issuer) set(down bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.down = down
}

func (i *issuer) answer(path, text string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.answers[path] = text
}

func (i *issuer) fetches() int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.fetched
}

func (i *issuer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	i.mu.Lock()
	defer i.mu.Unlock()
	text, other := i.answers[r.URL.Path]
	i.bearer[r.URL.Path] = r.Header.Get("Authorization")
	if r.URL.Path == "/keys" {
		i.fetched++
	}
	switch w.Header().Set("Content-Type", i.kind); {
	case i.down:
		http.Error(w, "down", http.StatusServiceUnavailable)
	case other:
		fmt.Fprint(w, text)
	case r.URL.Path == "/.well-known/openid-configuration":
		url := i.url
		if url == "" {
			url = "https://" + r.Host
		}
		fmt.Fprintf(w, `{"issuer":%q,"jwks_uri":"https://%s/keys"}`, url, r.Host)
	case r.URL.Path == "/keys":
		_ = json.NewEncoder(w).Encode(jose.JSONWebKeySet{Keys: i.keys})
	default:
		http.NotFound(w, r)
	}
}

// client returns a client of the issuer without a network, for virtual time.
func (i *issuer) client() *http.Client { return &http.Client{Transport: direct{i}} }

type direct struct{ http.Handler }

// RoundTrip implements http.RoundTripper.
func (d direct) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	w := httptest.NewRecorder()
	d.ServeHTTP(w, r)
	return w.Result(), nil
}

// basic is a configuration for tokens of the issuer.
func basic() oidc.Config {
	return oidc.Config{
		Issuer: oidc.Issuer{URL: issuerURL, Audiences: []string{"api"}},
		ClaimMappings: oidc.ClaimMappings{
			Username: oidc.PrefixedClaimOrExpression{Claim: "sub", Prefix: new("oidc:")},
		},
	}
}

// claims are good ones with changes; nil removes one.
func claims(changes map[string]any) map[string]any {
	c := map[string]any{"iss": issuerURL, "aud": "api", "sub": "ann", "exp": time.Now().Add(time.Hour).Unix()}
	maps.Copy(c, changes)
	maps.DeleteFunc(c, func(_ string, v any) bool { return v == nil })
	return c
}

// run runs a verifier until the test ends or stop is called.
func run(t testing.TB, v *oidc.Verifier) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- v.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(stop)
	return stop
}

// start makes and runs a verifier that reaches the issuer, and waits until it is ready.
func start(t testing.TB, i *issuer, c oidc.Config, o oidc.Options) *oidc.Verifier {
	t.Helper()
	o.Client = i.client()
	v, err := oidc.New(c, o)
	if err != nil {
		t.Fatal(err)
	}
	run(t, v)
	<-v.Discovered()
	return v
}
