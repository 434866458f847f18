package main

import (
	"crypto/tls"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/netip"
	"os"

	"github.com/keelson-dev/keelson/authn/x509"
	"github.com/keelson-dev/keelson/pki"
)

// foreign holds certificates and names issued elsewhere that this cluster uses, and pages that may use it.
type foreign struct {
	origins          origins
	issuer           string // the issuer in tokens of service accounts
	clientCA         string // the authority of users' certificates
	certificate, key string // the server's certificate
}

func (f *foreign) define(set *flag.FlagSet) {
	set.StringVar(&f.issuer, "service-account-issuer", "", "")
	set.StringVar(&f.clientCA, "client-ca-file", "", "")
	set.StringVar(&f.certificate, "tls-cert-file", "", "")
	set.StringVar(&f.key, "tls-private-key-file", "", "")
	f.origins.define(set)
}

func (f *foreign) check() error {
	if (f.certificate == "") != (f.key == "") {
		return errors.New("--tls-cert-file and --tls-private-key-file go together: a certificate and its key")
	}
	return f.origins.check()
}

// serving returns the server's certificate, and the certificates by which clients verify it.
func (f *foreign) serving(authority *pki.Authority, address net.Addr, inside netip.Addr) (shown tls.Certificate, roots []byte, err error) {
	if f.certificate == "" {
		shown, err = certificate(authority, address, inside)
		return shown, authority.PEM(), err
	}
	if shown, err = tls.LoadX509KeyPair(f.certificate, f.key); err != nil {
		return shown, nil, fmt.Errorf("--tls-cert-file: %w", err)
	}
	text, err := os.ReadFile(f.certificate)
	if err != nil {
		return shown, nil, fmt.Errorf("--tls-cert-file: %w", err)
	}
	return shown, append(authority.PEM(), text...), nil // nodes' servers have certificates from the cluster's own authority
}

// clients adds an authenticator for certificates that another authority has signed.
func (f *foreign) clients(p *people, s *settings) error {
	if f.clientCA == "" {
		return nil
	}
	authority, err := x509.Open(f.clientCA, x509.Options{Log: s.logger()})
	if err != nil {
		return fmt.Errorf("--client-ca-file: %w", err)
	}
	p.authenticators, p.files = append(p.authenticators, stage("client-ca-file", x509.New(authority))), append(p.files, authority)
	return nil
}

// clientRoots are published for servers that delegate authentication to this one.
func (f *foreign) clientRoots(authority *pki.Authority) ([]byte, error) {
	if f.clientCA == "" {
		return authority.PEM(), nil
	}
	text, err := os.ReadFile(f.clientCA)
	if err != nil {
		return nil, fmt.Errorf("--client-ca-file: %w", err)
	}
	return append(authority.PEM(), text...), nil
}
