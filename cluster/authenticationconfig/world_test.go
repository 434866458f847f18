package authenticationconfig_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	jose "github.com/go-jose/go-jose/v4"

	"github.com/keelson-dev/keelson/internal/leaktest"
)

func TestMain(m *testing.M) { leaktest.VerifyTestMain(m) }

// issuers are all issuers of the world, by host; they share a key.
type issuers struct {
	key  *ecdsa.PrivateKey
	mu   sync.Mutex
	down map[string]bool
	// asked is how often a host was asked for anything.
	asked map[string]int
}

func newIssuers(t testing.TB) *issuers {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return &issuers{key: key, down: map[string]bool{}, asked: map[string]int{}}
}

func (i *issuers) set(host string, down bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.down[host] = down
}

func (i *issuers) times(host string) int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.asked[host]
}

// RoundTrip implements http.RoundTripper.
func (i *issuers) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.asked[r.URL.Host]++
	w := httptest.NewRecorder()
	w.Header().Set("Content-Type", "application/json")
	switch {
	case i.down[r.URL.Host]:
		w.WriteHeader(http.StatusServiceUnavailable)
	case r.URL.Path == "/keys":
		_ = json.NewEncoder(w).Encode(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: &i.key.PublicKey, KeyID: "k"}}})
	default:
		fmt.Fprintf(w, `{"issuer":"https://%s","jwks_uri":"https://%s/keys"}`, r.URL.Host, r.URL.Host)
	}
	return w.Result(), nil
}

func (i *issuers) client() *http.Client { return &http.Client{Transport: i} }

// token returns one of an issuer.
func (i *issuers) token(t testing.TB, host, who string) string {
	t.Helper()
	return i.sign(t, map[string]any{"iss": "https://" + host, "aud": "api", "sub": who, "exp": time.Now().Add(time.Hour).Unix()})
}

func (i *issuers) sign(t testing.TB, claims map[string]any) string {
	t.Helper()
	body, err := json.Marshal(claims)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: jose.JSONWebKey{Key: i.key, KeyID: "k"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	signed, err := signer.Sign(body)
	if err != nil {
		t.Fatal(err)
	}
	text, err := signed.CompactSerialize()
	if err != nil {
		t.Fatal(err)
	}
	return text
}

const head = "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthenticationConfiguration\n"

// jwt is an entry for an issuer.
func jwt(host string) string {
	return "- issuer: {url: 'https://" + host + "', audiences: [api]}\n  claimMappings: {username: {expression: '\"" + host + ":\" + claims.sub'}}\n"
}

func write(t testing.TB, text string) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "authentication.yaml")
	rewrite(t, path, text)
	return path
}

func rewrite(t testing.TB, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// told is what was logged. It may be read while it is written.
type told struct {
	mu   sync.Mutex
	text strings.Builder
}

// Write implements io.Writer.
func (l *told) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

// take returns what was logged since it was last asked.
func (l *told) take() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	defer l.text.Reset()
	return l.text.String()
}
