package serviceaccount_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"io"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	jose "github.com/go-jose/go-jose/v4"

	"github.com/keelson-dev/keelson/authn/serviceaccount"
)

// Keys whose IDs are known from upstream's tests.
const (
	upstreamRSA = `-----BEGIN PUBLIC KEY-----
MIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8AMIIBCgKCAQEA249XwEo9k4tM8fMxV7zx
OhcrP+WvXn917koM5Qr2ZXs4vo26e4ytdlrV0bQ9SlcLpQVSYjIxNfhTZdDt+ecI
zshKuv1gKIxbbLQMOuK1eA/4HALyEkFgmS/tleLJrhc65tKPMGD+pKQ/xhmzRuCG
51RoiMgbQxaCyYxGfNLpLAZK9L0Tctv9a0mJmGIYnIOQM4kC1A1I1n3EsXMWmeJU
j7OTh/AjjCnMnkgvKT2tpKxYQ59PgDgU8Ssc7RDSmSkLxnrv+OrN80j6xrw0OjEi
B4Ycr0PqfzZcvy8efTtFQ/Jnc4Bp1zUtFXt7+QeevePtQ2EcyELXE0i63T1CujRM
WwIDAQAB
-----END PUBLIC KEY-----
`
	upstreamRSAID = "JHJehTTTZlsspKHT-GaJxK7Kd1NQgZJu3fyK6K_QDYU"
	upstreamEC    = `-----BEGIN PUBLIC KEY-----
MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEH6cuzP8XuD5wal6wf9M6xDljTOPL
X2i8uIp/C/ASqiIGUeeKQtX0/IR3qCXyThP/dbCiHrF3v1cuhBOHY8CLVg==
-----END PUBLIC KEY-----
`
	upstreamECID = "SoABiieYuNx4UdqYvZRVeuC6SihxgLrhLy9peHMHpTc"
)

func TestKeyID(t *testing.T) {
	keys := must(serviceaccount.ParsePublicKeys([]byte(upstreamRSA + upstreamEC)))(t)
	for i, want := range []string{upstreamRSAID, upstreamECID} {
		if got := must(serviceaccount.KeyID(keys[i]))(t); got != want {
			t.Errorf("key %d has ID %s, want %s", i, got, want)
		}
	}
	if _, err := serviceaccount.KeyID("x"); !errors.Is(err, serviceaccount.ErrKey) {
		t.Errorf("something else has an ID: %v", err)
	}
}

// The header of a token says what others verify it by.
func TestTokenHeader(t *testing.T) {
	for alg, key := range signingKeys(t) {
		w := newWorld(t, key)
		signed := must(jose.ParseSignedCompact(w.issue(t, claims()), []jose.SignatureAlgorithm{jose.SignatureAlgorithm(alg)}))(t)
		if id := must(serviceaccount.KeyID(key.Public()))(t); signed.Signatures[0].Protected.KeyID != id {
			t.Errorf("%s: key ID %s, want %s", alg, signed.Signatures[0].Protected.KeyID, id)
		}
	}
}

type opaque struct{ crypto.Signer }

func TestUnusableKeys(t *testing.T) {
	_, edwards, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	small := newEC(t, elliptic.P224())
	//nolint:staticcheck // a key that no constructor makes
	offCurve := &ecdsa.PublicKey{Curve: elliptic.P256(), X: big.NewInt(1), Y: big.NewInt(1)}
	for name, c := range map[string]struct {
		signing   crypto.Signer
		verifying crypto.PublicKey
		want      string
	}{
		"Edwards curve":      {signing: edwards, want: "public key of type ed25519.PublicKey, must be *rsa.PublicKey or *ecdsa.PublicKey"},
		"small curve":        {signing: small, want: "curve P-224, must be P-256, P-384 or P-521"},
		"key in a device":    {signing: opaque{newEC(t, elliptic.P256())}, want: "private key of type serviceaccount_test.opaque, must be *rsa.PrivateKey or *ecdsa.PrivateKey"},
		"small, to verify":   {verifying: small.Public(), want: "curve P-224, must be P-256, P-384 or P-521"},
		"off the curve":      {verifying: offCurve, want: "P256 point not on curve"},
		"private, to verify": {verifying: small, want: "public key of type *ecdsa.PrivateKey, must be *rsa.PublicKey or *ecdsa.PublicKey"},
	} {
		_, err := serviceaccount.NewKeys(c.signing, c.verifying)
		if c.verifying == nil {
			_, err = serviceaccount.NewKeys(c.signing)
		}
		if !errors.Is(err, serviceaccount.ErrKey) || err.Error() != "unusable service account key: "+c.want {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func block(kind string, der []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
}

func TestParse(t *testing.T) {
	ec, small := newEC(t, elliptic.P256()), newEC(t, elliptic.P224())
	pkcs8 := func(key any) string { return block("PRIVATE KEY", must(x509.MarshalPKCS8PrivateKey(key))(t)) }
	sec1 := block("EC PRIVATE KEY", must(x509.MarshalECPrivateKey(ec))(t))
	template := &x509.Certificate{SerialNumber: big.NewInt(1)}
	cert := block("CERTIFICATE", must(x509.CreateCertificate(rand.Reader, template, template, &ec.PublicKey, ec))(t))
	const none, noneAtAll = "malformed key file: no RSA or ECDSA private key in PEM", "malformed key file: no RSA or ECDSA key in PEM"
	for name, c := range map[string]struct {
		in                string
		public            int
		noPrivate, noKeys string // the errors
	}{
		"PKCS #8, RSA":       {in: pkcs8(rsaKey()), public: 1},
		"PKCS #8, EC":        {in: pkcs8(ec), public: 1},
		"PKCS #1":            {in: block("RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(rsaKey())), public: 1},
		"SEC 1":              {in: block("EC PARAMETERS", []byte("x")) + sec1, public: 1},
		"several":            {in: upstreamRSA + cert + sec1 + upstreamEC, public: 4},
		"PKCS #1, public":    {in: block("RSA PUBLIC KEY", x509.MarshalPKCS1PublicKey(&rsaKey().PublicKey)), public: 1, noPrivate: none},
		"certificate":        {in: cert, public: 1, noPrivate: none},
		"empty":              {noPrivate: none, noKeys: noneAtAll},
		"not PEM":            {in: "hello", noPrivate: none, noKeys: noneAtAll},
		"something else":     {in: block("X509 CRL", nil), noPrivate: none, noKeys: noneAtAll},
		"small curve":        {in: pkcs8(small), noPrivate: "malformed key file: PEM block 1 (PRIVATE KEY): unusable service account key: curve P-224, must be P-256, P-384 or P-521"},
		"broken certificate": {in: upstreamEC + block("CERTIFICATE", []byte("x")), noPrivate: "malformed key file: PEM block 2 (CERTIFICATE): "},
		"broken second one":  {in: upstreamEC + block("PUBLIC KEY", []byte("x")), noPrivate: "malformed key file: PEM block 2 (PUBLIC KEY): "},
	} {
		t.Run(name, func(t *testing.T) {
			private, err := serviceaccount.ParseKey([]byte(c.in))
			check(t, err, c.noPrivate)
			if (private == nil) != (c.noPrivate != "") {
				t.Errorf("private key %v", private)
			}
			if c.noKeys == "" && c.public == 0 {
				c.noKeys = c.noPrivate
			}
			public, err := serviceaccount.ParsePublicKeys([]byte(c.in))
			check(t, err, c.noKeys)
			if len(public) != c.public {
				t.Errorf("%d public keys, want %d", len(public), c.public)
			}
		})
	}
}

func check(t *testing.T, err error, want string) {
	t.Helper()
	if want == "" && err != nil || want != "" && (!errors.Is(err, serviceaccount.ErrKeyFile) || !strings.HasPrefix(err.Error(), want)) {
		t.Errorf("error %v, want %q", err, want)
	}
}

func TestOpenKey(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "sa.key")
	made := must(serviceaccount.OpenKey(path))(t)
	info := must(os.Stat(path))(t)
	if info.Mode().Perm() != 0o600 {
		t.Errorf("the file's mode is %v", info.Mode())
	}
	if files := must(os.ReadDir(dir))(t); len(files) != 2 || files[1].Name() != "sa.pub" {
		t.Errorf("files left behind: %v", files)
	}
	again := must(serviceaccount.OpenKey(path))(t)
	if !again.(*ecdsa.PrivateKey).Equal(made) {
		t.Error("the second time, it is another key")
	}
	if public := must(serviceaccount.ReadPublicKeys(path))(t); !public[0].(*ecdsa.PublicKey).Equal(made.Public()) {
		t.Error("the public key is another's")
	}
	if err := os.WriteFile(path, []byte("damaged"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := serviceaccount.OpenKey(path); !errors.Is(err, serviceaccount.ErrKeyFile) || !strings.HasPrefix(err.Error(), path+": ") {
		t.Errorf("a damaged file: %v", err)
	}
	if data := must(os.ReadFile(path))(t); string(data) != "damaged" {
		t.Error("the damaged file was replaced")
	}
	if _, err := serviceaccount.OpenKey(filepath.Join(dir, "no", "sa.key")); !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), "store a new service account key") {
		t.Errorf("no directory: %v", err)
	}
	if _, err := serviceaccount.ReadPublicKeys(filepath.Join(dir, "no")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
}

func TestDiscovery(t *testing.T) {
	ec := newEC(t, elliptic.P256())
	public := must(serviceaccount.ParsePublicKeys([]byte(upstreamRSA)))(t)
	keys := must(serviceaccount.NewKeys(ec, append(public, ec.Public())...))(t)
	handlers := must(serviceaccount.NewDiscovery(issuerURL, "https://192.0.2.1:6443"+serviceaccount.JWKSPath, keys))(t).Handlers()
	ask := func(path, method, accept string) *http.Response {
		r := httptest.NewRequest(method, path, nil)
		if accept != "" {
			r.Header.Set("Accept", accept)
		}
		w := httptest.NewRecorder()
		w.Header().Set("Cache-Control", "no-cache, private")
		handlers[path].ServeHTTP(w, r)
		return w.Result()
	}
	config := ask("/.well-known/openid-configuration", http.MethodGet, "application/json, */*")
	body := string(must(io.ReadAll(config.Body))(t))
	want := `{"issuer":"` + issuerURL + `","jwks_uri":"https://192.0.2.1:6443/openid/v1/jwks","response_types_supported":["id_token"],` +
		`"subject_types_supported":["public"],"id_token_signing_alg_values_supported":["ES256","RS256"]}`
	if body != want || config.Header.Get("Content-Type") != "application/json" || config.Header.Get("Cache-Control") != "public, max-age=3600" {
		t.Errorf("got %v\n%s\nwant\n%s", config.Header, body, want)
	}
	jwks := ask("/openid/v1/jwks", http.MethodGet, "")
	body = string(must(io.ReadAll(jwks.Body))(t))
	var set jose.JSONWebKeySet
	if err := json.Unmarshal([]byte(body), &set); err != nil || jwks.Header.Get("Content-Type") != "application/jwk-set+json" || jwks.Header.Get("Cache-Control") != "public, max-age=3600" {
		t.Fatalf("got %v %v\n%s", err, jwks.Header, body)
	}
	if len(set.Keys) != 2 || !set.Keys[0].Key.(*ecdsa.PublicKey).Equal(ec.Public()) || !strings.HasSuffix(body,
		`,{"use":"sig","kty":"RSA","kid":"`+upstreamRSAID+`","alg":"RS256","n":"249XwEo9k4tM8fMxV7zxOhcrP-WvXn917koM5Qr2ZXs4vo26e4ytdlrV0bQ9SlcLpQVSYjIxNfhTZdDt-ecIzshKuv1gKIxbbLQMOuK1eA_4HALyEkFgmS_tleLJrhc65tKPMGD-pKQ_xhmzRuCG51RoiMgbQxaCyYxGfNLpLAZK9L0Tctv9a0mJmGIYnIOQM4kC1A1I1n3EsXMWmeJUj7OTh_AjjCnMnkgvKT2tpKxYQ59PgDgU8Ssc7RDSmSkLxnrv-OrN80j6xrw0OjEiB4Ycr0PqfzZcvy8efTtFQ_Jnc4Bp1zUtFXt7-QeevePtQ2EcyELXE0i63T1CujRMWw","e":"AQAB"}]}`) {
		t.Errorf("key set %s", body)
	}
	for _, c := range []struct {
		path, method, accept string
		want                 int
	}{
		{"/openid/v1/jwks", http.MethodPost, "", 405},
		{"/openid/v1/jwks", http.MethodGet, "application/json", 406},
		{"/openid/v1/jwks", http.MethodGet, "text/html, */*;q=0.1", 200},
		{"/.well-known/openid-configuration", http.MethodGet, "application/json;q=0.5", 200},
		{"/.well-known/openid-configuration", http.MethodGet, "text/html", 406},
	} {
		if got := ask(c.path, c.method, c.accept).StatusCode; got != c.want {
			t.Errorf("%s %s accepting %q: %d, want %d", c.method, c.path, c.accept, got, c.want)
		}
	}
}

// A relying party finds the key of a token by its ID.
func TestDiscoveryVerifies(t *testing.T) {
	for alg, key := range signingKeys(t) {
		w := newWorld(t, key)
		rec := httptest.NewRecorder()
		must(serviceaccount.NewDiscovery(issuerURL, "https://x/openid/v1/jwks", w.keys))(t).Handlers()[serviceaccount.JWKSPath].
			ServeHTTP(rec, httptest.NewRequest(http.MethodGet, serviceaccount.JWKSPath, nil))
		var set jose.JSONWebKeySet
		if err := json.Unmarshal(rec.Body.Bytes(), &set); err != nil {
			t.Fatal(err)
		}
		signed := must(jose.ParseSignedCompact(w.issue(t, claims()), []jose.SignatureAlgorithm{jose.SignatureAlgorithm(alg)}))(t)
		if _, err := signed.Verify(set); err != nil {
			t.Errorf("%s: %v", alg, err)
		}
	}
}

func TestNoDiscovery(t *testing.T) {
	keys := must(serviceaccount.NewKeys(newEC(t, elliptic.P256())))(t)
	for _, c := range []struct{ issuer, jwks, want string }{
		{"kubernetes", "https://x/", "issuer URL must use https scheme, got: kubernetes"},
		{"https://x?a=b", "https://x/", "issuer URL may not include a query, got: https://x?a=b"},
		{"https://x#a", "https://x/", "issuer URL may not include a fragment, got: https://x#a"},
		{"https://x", "http://x/", "jwksURI requires https scheme and a host, got: http://x/"},
		{"https://x", "https:///openid/v1/jwks", "jwksURI requires https scheme and a host, got: https:///openid/v1/jwks"},
		{"https://x:y", "https://x/", `parse "https://x:y": invalid port ":y" after host`},
		{"https://x", ":", `parse ":": missing protocol scheme`},
	} {
		if _, err := serviceaccount.NewDiscovery(c.issuer, c.jwks, keys); !errors.Is(err, serviceaccount.ErrDiscovery) || !strings.HasSuffix(err.Error(), c.want) {
			t.Errorf("issuer %s, key set %s: %v, want %s", c.issuer, c.jwks, err, c.want)
		}
	}
}

func FuzzParseKeys(f *testing.F) {
	f.Add([]byte(upstreamRSA + upstreamEC))
	f.Add([]byte(block("PRIVATE KEY", must(x509.MarshalPKCS8PrivateKey(newEC(f, elliptic.P256())))(f))))
	f.Add([]byte("-----BEGIN RSA PRIVATE KEY-----\nAAAA\n-----END RSA PRIVATE KEY-----\n"))
	f.Fuzz(func(t *testing.T, in []byte) {
		keys, err := serviceaccount.ParsePublicKeys(in)
		if (len(keys) == 0) == (err == nil) || err != nil && !errors.Is(err, serviceaccount.ErrKeyFile) {
			t.Errorf("%d keys, %v", len(keys), err)
		}
		if err == nil {
			if _, err := serviceaccount.NewKeys(nil, keys...); err != nil {
				t.Errorf("keys that were read cannot be used: %v", err)
			}
		}
		if key, err := serviceaccount.ParseKey(in); (key == nil) == (err == nil) {
			t.Errorf("%v, %v", key, err)
		}
	})
}
