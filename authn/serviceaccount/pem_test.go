package serviceaccount_test

import (
	"crypto/elliptic"
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
