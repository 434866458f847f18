package pki_test

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/keelson-dev/keelson/pki"
)

const year = 365 * 24 * time.Hour

func open(t *testing.T, dir string) *pki.Authority {
	t.Helper()
	a, err := pki.Open(dir, "kubernetes")
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func leaf(t *testing.T, p pki.Pair, err error) *x509.Certificate {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	c, err := p.TLS()
	if err != nil {
		t.Fatal(err)
	}
	return c.Leaf
}

func TestIssue(t *testing.T) {
	a, err := pki.New("kubernetes")
	if err != nil {
		t.Fatal(err)
	}
	client, err := a.Issue(pki.Subject{Name: "jane", Groups: []string{"dev", "ops"}}, year)
	c := leaf(t, client, err)
	if _, err := c.Verify(x509.VerifyOptions{Roots: a.Pool(), KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}); err != nil {
		t.Error("client certificate:", err)
	}
	if _, err := c.Verify(x509.VerifyOptions{Roots: a.Pool(), KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}); err == nil {
		t.Error("a client certificate serves as a server's")
	}
	server, err := a.Issue(pki.Subject{Name: "apiserver", Hosts: []string{"localhost", "127.0.0.1"}}, year)
	s := leaf(t, server, err)
	for host, good := range map[string]bool{"localhost": true, "127.0.0.1": true, "127.0.0.2": false, "example": false} {
		_, err := s.Verify(x509.VerifyOptions{Roots: a.Pool(), DNSName: host})
		if (err == nil) != good {
			t.Errorf("server certificate for %s: %v", host, err)
		}
	}
	if strings.Contains(client.String(), "PRIVATE") {
		t.Error("the key is printed")
	}
}

func TestDirectoryIsKept(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "pki")
	a := open(t, dir)
	subject := pki.Subject{Name: "apiserver", Hosts: []string{"localhost", "::1"}}
	first, err := a.Keep("apiserver", subject, year)
	leaf(t, first, err)
	again, err := open(t, dir).Keep("apiserver", subject, year)
	if err != nil || string(again.Key) != string(first.Key) {
		t.Errorf("another certificate was made: %v", err)
	}
	subject.Hosts = append(subject.Hosts, "127.0.0.1")
	other, err := open(t, dir).Keep("apiserver", subject, year)
	if c := leaf(t, other, err); c.VerifyHostname("127.0.0.1") != nil {
		t.Error("the kept certificate does not follow its hosts")
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.key"))
	if err != nil || len(files) != 2 {
		t.Fatal(files, err)
	}
	for _, f := range files {
		if info, err := os.Stat(f); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v %v", f, info.Mode(), err)
		}
	}
}

func TestRenewal(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		a := open(t, dir)
		first, err := a.Keep("apiserver", pki.Subject{Name: "apiserver", Hosts: []string{"localhost"}}, year)
		leaf(t, first, err)
		for _, step := range []struct {
			wait  time.Duration
			fresh bool
		}{{year / 2, false}, {year / 3, true}} {
			time.Sleep(step.wait)
			next, err := a.Keep("apiserver", pki.Subject{Name: "apiserver", Hosts: []string{"localhost"}}, year)
			if err != nil || (string(next.Key) != string(first.Key)) != step.fresh {
				t.Errorf("after %v more: renewed %v, %v", step.wait, !step.fresh, err)
			}
		}
		time.Sleep(10 * year)
		if _, err := pki.Open(dir, "kubernetes"); !errors.Is(err, pki.ErrDamaged) || !strings.Contains(err.Error(), "expired at") {
			t.Error("expired authority:", err)
		}
	})
}

// TestCrash: whatever files a crash leaves, the next start goes on, and what was issued stays valid.
func TestCrash(t *testing.T) {
	for _, lost := range []string{"ca.crt", "apiserver.crt"} {
		t.Run(lost, func(t *testing.T) {
			dir := t.TempDir()
			client, err := open(t, dir).Issue(pki.Subject{Name: "jane"}, year)
			c := leaf(t, client, err)
			if _, err := open(t, dir).Keep("apiserver", pki.Subject{Name: "a", Hosts: []string{"h"}}, year); err != nil {
				t.Fatal(err)
			}
			if err := os.Remove(filepath.Join(dir, lost)); err != nil {
				t.Fatal(err)
			}
			a := open(t, dir)
			if _, err := c.Verify(x509.VerifyOptions{Roots: a.Pool(), KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}}); err != nil {
				t.Error(err)
			}
			server, err := a.Keep("apiserver", pki.Subject{Name: "a", Hosts: []string{"h"}}, year)
			if _, err := leaf(t, server, err).Verify(x509.VerifyOptions{Roots: a.Pool(), DNSName: "h"}); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestDamage(t *testing.T) {
	other, err := pki.New("other")
	if err != nil {
		t.Fatal(err)
	}
	foreign, err := other.Issue(pki.Subject{Name: "x"}, year)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		file, content, want string
	}{
		"not PEM":        {"ca.crt", "hello", "ca.crt or ca.key"},
		"another's":      {"ca.crt", string(other.PEM()), "private key does not match"},
		"not authority":  {"ca.crt", string(foreign.Certificate), "put the right pair back"},
		"key not PEM":    {"ca.key", "hello", "put the right pair back"},
		"kept not PEM":   {"apiserver.crt", "hello", "remove apiserver.crt and apiserver.key"},
		"kept key empty": {"apiserver.key", "", "remove apiserver.crt and apiserver.key"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if _, err := open(t, dir).Keep("apiserver", pki.Subject{Name: "a"}, year); err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(dir, c.file)
			if err := os.WriteFile(path, []byte(c.content), 0o600); err != nil {
				t.Fatal(err)
			}
			a, err := pki.Open(dir, "kubernetes")
			if err == nil {
				_, err = a.Keep("apiserver", pki.Subject{Name: "a"}, year)
			}
			if !errors.Is(err, pki.ErrDamaged) || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "PRIVATE") {
				t.Errorf("got %v, want something of %q", err, c.want)
			}
			if data, _ := os.ReadFile(path); string(data) != c.content {
				t.Error("the damaged file was changed")
			}
		})
	}
}

func TestKeyWithoutCertificateIsNotACertificateWithoutKey(t *testing.T) {
	dir := t.TempDir()
	open(t, dir)
	if err := os.Remove(filepath.Join(dir, "ca.key")); err != nil {
		t.Fatal(err)
	}
	if _, err := pki.Open(dir, "kubernetes"); !errors.Is(err, pki.ErrDamaged) || !strings.Contains(err.Error(), "put the key back") {
		t.Error(err)
	}
}

func TestHandshake(t *testing.T) {
	a, err := pki.New("kubernetes")
	if err != nil {
		t.Fatal(err)
	}
	server, err := a.Issue(pki.Subject{Name: "s", Hosts: []string{"127.0.0.1"}}, year)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := server.TLS()
	if err != nil {
		t.Fatal(err)
	}
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	done := make(chan error, 1)
	go func() {
		c, err := l.Accept()
		if err == nil {
			err = c.(*tls.Conn).HandshakeContext(t.Context())
		}
		done <- err
	}()
	c, err := tls.Dial("tcp", l.Addr().String(), &tls.Config{RootCAs: a.Pool(), MinVersion: tls.VersionTLS12})
	if err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
	_ = c.Close()
}

// TestSign: an authority signs what others make, with a serial number of its own, and leaves their template as it is.
func TestSign(t *testing.T) {
	a, err := pki.New("kubernetes")
	if err != nil {
		t.Fatal(err)
	}
	other, err := pki.New("other")
	if err != nil {
		t.Fatal(err)
	}
	key := must(t, other).PublicKey
	template := &x509.Certificate{Subject: pkix.Name{CommonName: "ann"}, NotAfter: a.NotAfter()}
	signed, err := a.Sign(template, key)
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(signed)
	c, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	if c.CheckSignatureFrom(must(t, a)) != nil || c.Subject.CommonName != "ann" || !c.NotAfter.Equal(must(t, a).NotAfter) || c.SerialNumber.Sign() <= 0 || template.SerialNumber != nil {
		t.Errorf("signed %+v for %+v", c, template)
	}
}
