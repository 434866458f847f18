package authentication_test

import (
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/tls"
	stdx509 "crypto/x509"
	"crypto/x509/pkix"
	"math/big"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	upstream "k8s.io/apiserver/pkg/authentication/request/x509"

	"github.com/keelson-dev/keelson/authn"
	"github.com/keelson-dev/keelson/authn/x509"
)

type authority struct {
	key  *ecdsa.PrivateKey
	cert *stdx509.Certificate
}

func (a *authority) sign(template *stdx509.Certificate, key *ecdsa.PrivateKey) *stdx509.Certificate {
	parent := a.cert
	if parent == nil {
		parent = template
	}
	return must(stdx509.ParseCertificate(must(stdx509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, a.key))))
}

func newAuthority(name string, of *authority) *authority {
	a := &authority{key: newKey()}
	if of == nil {
		of = a
	}
	a.cert = of.sign(&stdx509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), SubjectKeyId: []byte(name),
	}, a.key)
	return a
}

// template returns a random client certificate, usually with at most one flaw.
func (d dice) template() *stdx509.Certificate {
	c := &stdx509.Certificate{
		SerialNumber: big.NewInt(d.Int64()),
		Subject: pkix.Name{
			CommonName:   d.pick("ann", "ann", "system:node:a", "").(string),
			Organization: d.pick([]string(nil), []string{"dev"}, []string{"dev", "system:masters"}).([]string),
		},
		NotBefore:   time.Now().Add(d.pick(-time.Minute, -time.Minute, -time.Minute, time.Minute).(time.Duration)),
		NotAfter:    time.Now().Add(d.pick(time.Hour, time.Hour, time.Hour, -time.Second).(time.Duration)),
		ExtKeyUsage: d.pick([]stdx509.ExtKeyUsage{stdx509.ExtKeyUsageClientAuth}, []stdx509.ExtKeyUsage{stdx509.ExtKeyUsageAny}, []stdx509.ExtKeyUsage{stdx509.ExtKeyUsageServerAuth}, []stdx509.ExtKeyUsage(nil)).([]stdx509.ExtKeyUsage),
	}
	for range d.pick(0, 0, 1, 2).(int) {
		c.Subject.ExtraNames = append(c.Subject.ExtraNames, pkix.AttributeTypeAndValue{Type: x509.UIDAttribute(), Value: d.pick("uid", "", "other")})
	}
	return c
}

func TestCertificates(t *testing.T) {
	d := newDice()
	root, other := newAuthority("root", nil), newAuthority("other", nil)
	between := newAuthority("between", root)
	pool := stdx509.NewCertPool()
	pool.AddCert(root.cert)
	options := upstream.DefaultVerifyOptions()
	options.Roots = pool
	theirs, ours := upstream.New(options, upstream.CommonNameUserConversion), x509.New(x509.Static{Roots: pool})
	good, bad, none := 0, 0, 0
	for n := range *requests / 10 {
		by := d.pick(root, root, between, other).(*authority)
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.TLS = &tls.ConnectionState{PeerCertificates: []*stdx509.Certificate{by.sign(d.template(), newKey())}}
		if by == between && !d.one(4) {
			r.TLS.PeerCertificates = append(r.TLS.PeerCertificates, between.cert)
		}
		response, ok, err := theirs.AuthenticateRequest(r)
		id, ourErr := ours.Authenticate(r)
		subject := r.TLS.PeerCertificates[0].Subject
		switch {
		case ok && err == nil:
			good++
			if ourErr != nil || !same(id, response.User, nil) {
				t.Fatalf("certificate %d, %v: upstream takes it for %+v, keelson for %+v, %v", n, subject, response.User, id, ourErr)
			}
		case err != nil:
			bad++
			if ourErr == nil || firstWords(ourErr) != firstWords(err) {
				t.Fatalf("certificate %d, %v: upstream says %v, keelson %v", n, subject, err, ourErr)
			}
		default:
			none++
			if ourErr != authn.ErrNoCredentials {
				t.Fatalf("certificate %d, %v: upstream takes it for none, keelson says %v", n, subject, ourErr)
			}
		}
	}
	t.Logf("%d good, %d bad, %d of nobody", good, bad, none)
	if good == 0 || bad == 0 || none == 0 {
		t.Error("the certificates are too much alike")
	}
}

// firstWords is an error without keelson's prefix to errors about UIDs, and without the time of day.
func firstWords(err error) string {
	text := strings.TrimPrefix(err.Error(), "bad UID in client certificate: ")
	text, _, _ = strings.Cut(text, "current time")
	return text
}
