package serviceaccount_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/keelson-dev/keelson/authn/serviceaccount"
)

// A key that no token is signed with is refused where it is read, and a file by its name.
func TestUnusableFiles(t *testing.T) {
	small := newEC(t, elliptic.P224())
	for name, block := range map[string]*pem.Block{
		"private key": {Type: "PRIVATE KEY", Bytes: must(x509.MarshalPKCS8PrivateKey(small))(t)},
		"public key":  {Type: "PUBLIC KEY", Bytes: must(x509.MarshalPKIXPublicKey(small.Public()))(t)},
		"certificate": {Type: "CERTIFICATE", Bytes: []byte("x")},
	} {
		path := filepath.Join(t.TempDir(), "keys.pem")
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
		if keys, err := serviceaccount.ReadPublicKeys(path); !errors.Is(err, serviceaccount.ErrKeyFile) || !strings.Contains(err.Error(), path) || keys != nil {
			t.Errorf("%s: got %v, %v", name, keys, err)
		}
		if key, err := serviceaccount.ReadKey(path); !errors.Is(err, serviceaccount.ErrKeyFile) || key != nil {
			t.Errorf("%s: got %v, %v", name, key, err)
		}
	}
}

// TestOpenKeyLeavesNothing: a key that cannot be put where it belongs lies nowhere else either.
func TestOpenKeyLeavesNothing(t *testing.T) {
	t.Chdir(t.TempDir())
	if key, err := serviceaccount.OpenKey(""); !errors.Is(err, os.ErrNotExist) || key != nil {
		t.Errorf("a file without a name: %v, %v", key, err)
	}
	if left := must(os.ReadDir("."))(t); len(left) > 0 {
		t.Errorf("%v is left", left)
	}
}

// TestPublicKeyBeside: what is signed with the key in one file is verified by that in the other, whoever changed the first.
func TestPublicKeyBeside(t *testing.T) {
	dir := t.TempDir()
	path, beside := filepath.Join(dir, "sa.key"), filepath.Join(dir, "sa.pub")
	for _, step := range []func() error{
		func() error { return nil },
		func() error { return nil },
		func() error { return os.Remove(path) }, // for a new one
		func() error { return os.Remove(beside) },
	} {
		if err := step(); err != nil {
			t.Fatal(err)
		}
		key := must(serviceaccount.OpenKey(path))(t)
		public := must(serviceaccount.ReadPublicKeys(beside))(t)
		if len(public) != 1 || !key.Public().(*ecdsa.PublicKey).Equal(public[0]) {
			t.Errorf("beside the key is %v", public)
		}
		if mode := must(os.Stat(beside))(t).Mode(); mode != 0o644 {
			t.Errorf("its mode is %v", mode)
		}
	}
	other := filepath.Join(dir, "other")
	if err := os.Mkdir(other+".pub", 0o700); err != nil {
		t.Fatal(err)
	}
	if key, err := serviceaccount.OpenKey(other); err == nil || key != nil {
		t.Errorf("its public key is nowhere: %v, %v", key, err)
	}
}

// TestTooWeakToSign: the standard library tells of a key that is too weak only when it signs.
func TestTooWeakToSign(t *testing.T) {
	t.Setenv("GODEBUG", "rsa1024min=0")
	key := must(rsa.GenerateKey(rand.Reader, 512))(t)
	t.Setenv("GODEBUG", "rsa1024min=1")
	issuer := must(serviceaccount.NewIssuer(issuerURL, must(serviceaccount.NewKeys(key))(t)))(t)
	if tok, err := issuer.Issue(t.Context(), claims()); tok != "" || err == nil || !strings.HasPrefix(err.Error(), "sign service account token: crypto/rsa: 512-bit keys are insecure") {
		t.Errorf("%q, %v", tok, err)
	}
}
