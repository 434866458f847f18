package main

import (
	"crypto"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/pflag"

	"github.com/keelson-dev/keelson/authn/serviceaccount"
	"github.com/keelson-dev/keelson/authn/token"
	"github.com/keelson-dev/keelson/authn/tokenfile"
	"github.com/keelson-dev/keelson/authn/x509"
	"github.com/keelson-dev/keelson/cluster"
	"github.com/keelson-dev/keelson/lifecycle"
	"github.com/keelson-dev/keelson/pki"
)

// servingFlags say which certificate the server shows.
type servingFlags struct {
	dir, certificateFile, keyFile string
}

func (s *servingFlags) define(f *pflag.FlagSet) {
	f.StringVar(&s.dir, "cert-dir", "/var/run/kubernetes", "the directory with the server's apiserver.crt and apiserver.key; they are made if they are missing")
	f.StringVar(&s.certificateFile, "tls-cert-file", "", "the server's certificate, instead")
	f.StringVar(&s.keyFile, "tls-private-key-file", "", "its key")
}

// certificate returns the server's certificate. Upstream makes one for itself, too, if the directory has none.
func (s *servingFlags) certificate(address net.Addr) (tls.Certificate, error) {
	if (s.certificateFile == "") != (s.keyFile == "") {
		return tls.Certificate{}, fmt.Errorf("%w: --tls-cert-file and --tls-private-key-file go together: a certificate and its key", errUsage)
	}
	if s.certificateFile != "" {
		shown, err := tls.LoadX509KeyPair(s.certificateFile, s.keyFile)
		if err != nil {
			return shown, fmt.Errorf("--tls-cert-file: %w", err)
		}
		return shown, nil
	}
	certificate, key := filepath.Join(s.dir, "apiserver.crt"), filepath.Join(s.dir, "apiserver.key")
	if missing(certificate) && missing(key) {
		if err := s.create(address, certificate, key); err != nil {
			return tls.Certificate{}, fmt.Errorf("--cert-dir: %w", err)
		}
	}
	shown, err := tls.LoadX509KeyPair(certificate, key)
	if err != nil {
		return shown, fmt.Errorf("--cert-dir %s: %w", s.dir, err)
	}
	return shown, nil
}

func missing(path string) bool {
	_, err := os.Stat(path)
	return errors.Is(err, os.ErrNotExist)
}

func (s *servingFlags) create(address net.Addr, certificate, key string) error {
	authority, err := pki.New("kube-apiserver-ca")
	if err != nil {
		return err
	}
	host, _, err := net.SplitHostPort(address.String())
	if err != nil {
		return err
	}
	const life = 365 * 24 * time.Hour
	pair, err := authority.Issue(pki.Subject{Name: apiServerName, Hosts: []string{"localhost", "127.0.0.1", host}}, life)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(s.dir, 0o755); err != nil {
		return err
	}
	return errors.Join(os.WriteFile(certificate, append(pair.Certificate, authority.PEM()...), 0o644), os.WriteFile(key, pair.Key, 0o600))
}

// peopleFlags say who can log in.
type peopleFlags struct {
	clientCA, tokens string
	issuers          []string
	keys             []string
	signingKey       string
	login            loginFlags
}

func (p *peopleFlags) define(f *pflag.FlagSet) {
	f.StringVar(&p.clientCA, "client-ca-file", "", "the authorities of clients' certificates")
	f.StringVar(&p.tokens, "token-auth-file", "", "people with bearer tokens: a CSV of token,user,uid,\"group1,group2\"")
	f.StringArrayVar(&p.issuers, "service-account-issuer", nil, "the name in tokens of service accounts")
	f.StringArrayVar(&p.keys, "service-account-key-file", nil, "public keys or certificates that verify tokens of service accounts")
	f.StringVar(&p.signingKey, "service-account-signing-key-file", "", "the private key that signs them")
	p.login.define(f)
}

// apply sets the authenticators. What it returns reads their files again when they change.
func (p *peopleFlags) apply(o *cluster.Options) (lifecycle.Runnable, error) {
	var files []lifecycle.Runnable
	if p.clientCA != "" {
		authorities, err := x509.Open(p.clientCA, x509.Options{Log: o.Logger})
		if err != nil {
			return nil, fmt.Errorf("--client-ca-file: %w", err)
		}
		if o.Server.ClientCA, err = os.ReadFile(p.clientCA); err != nil {
			return nil, fmt.Errorf("--client-ca-file: %w", err)
		}
		o.Authenticators, files = append(o.Authenticators, cluster.Ready("x509", x509.New(authorities))), append(files, authorities)
	}
	if p.tokens != "" {
		people, err := tokenfile.Open(p.tokens, tokenfile.Options{Log: o.Logger})
		if err != nil {
			return nil, fmt.Errorf("--token-auth-file: %w", err)
		}
		o.Authenticators, files = append(o.Authenticators, cluster.Ready("tokenfile", token.New(people))), append(files, people)
	}
	o.Authenticators = append(o.Authenticators, cluster.DefaultAuthenticators()...)
	if len(p.issuers) > 0 {
		o.Server.TokenIssuer = p.issuers[0]
	}
	if err := p.login.apply(o, p.issuers); err != nil {
		return nil, err
	}
	var err error
	o.Server.TokenKeys, err = p.tokenKeys()
	return lifecycle.Group(files...), err
}

// tokenKeys returns the keys of service accounts' tokens; nil for new ones.
func (p *peopleFlags) tokenKeys() (*serviceaccount.Keys, error) {
	if p.signingKey == "" {
		return nil, nil
	}
	signing, err := serviceaccount.ReadKey(p.signingKey)
	if err != nil {
		return nil, fmt.Errorf("--service-account-signing-key-file: %w", err)
	}
	var verifying []crypto.PublicKey
	for _, path := range p.keys {
		more, err := serviceaccount.ReadPublicKeys(path)
		if err != nil {
			return nil, fmt.Errorf("--service-account-key-file: %w", err)
		}
		verifying = append(verifying, more...)
	}
	keys, err := serviceaccount.NewKeys(signing, verifying...)
	if err != nil {
		return nil, fmt.Errorf("--service-account-key-file: %w", err)
	}
	return keys, nil
}
