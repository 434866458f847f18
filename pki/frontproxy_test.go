package pki_test

import (
	"crypto/x509"
	"encoding/pem"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/keelson-dev/keelson/pki"
)

// TestFrontProxy: a directory holds two authorities, of which neither vouches for the certificates of the other.
func TestFrontProxy(t *testing.T) {
	dir := t.TempDir()
	users, err := pki.Open(dir, "kubernetes")
	if err != nil {
		t.Fatal(err)
	}
	proxies, err := pki.OpenFrontProxy(dir)
	if err != nil {
		t.Fatal(err)
	}
	pair, err := proxies.Keep("front-proxy-client", pki.Subject{Name: "front-proxy-client"}, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"ca", "front-proxy-ca", "front-proxy-client"} {
		if _, err := os.Stat(filepath.Join(dir, name+".crt")); err != nil {
			t.Error(err)
		}
	}
	if again, err := pki.OpenFrontProxy(dir); err != nil || string(again.PEM()) != string(proxies.PEM()) || again.Pool().Equal(users.Pool()) {
		t.Errorf("opened again: %v, %s", err, again.PEM())
	}
	c, err := pair.TLS()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Leaf.CheckSignatureFrom(must(t, users)); err == nil {
		t.Error("the users' authority has signed the proxy's certificate")
	}
	if err := c.Leaf.CheckSignatureFrom(must(t, proxies)); err != nil {
		t.Error(err)
	}
}

// must returns an authority's certificate.
func must(t *testing.T, a *pki.Authority) *x509.Certificate {
	t.Helper()
	block, _ := pem.Decode(a.PEM())
	c, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	return c
}
