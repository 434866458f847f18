package pki

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// ErrDamaged: a file of the directory exists but cannot be used.
var ErrDamaged = errors.New("unusable certificate or key")

const (
	authorityLife = 10 * 365 * 24 * time.Hour
	// skew is how much earlier certificates begin, for clients whose clock is behind.
	skew = 5 * time.Minute
)

// Authority signs certificates.
type Authority struct {
	dir  string // empty: nothing is kept
	cert *x509.Certificate
	key  crypto.Signer
	pem  []byte
}

// New returns an authority in memory, valid from now on, called name.
func New(name string) (*Authority, error) {
	pair, err := newAuthority(name, nil)
	if err != nil {
		return nil, err
	}
	return load("", "ca", pair)
}

// Open returns the authority of a directory, and creates both if need be.
func Open(dir, name string) (*Authority, error) { return open(dir, "ca", name) }

// FrontProxy is the name of the authority that OpenFrontProxy returns, and of its files.
const FrontProxy = "front-proxy-ca"

// OpenFrontProxy returns the authority of proxies that say for whom they speak, which is another than that of users, and
// creates it and the directory if need be.
func OpenFrontProxy(dir string) (*Authority, error) { return open(dir, FrontProxy, FrontProxy) }

func open(dir, file, name string) (*Authority, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("certificate directory: %w", err)
	}
	pair, err := read(dir, file)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, errKeyAlone):
		if pair, err = newAuthority(name, pair.Key); err == nil {
			err = write(dir, file, pair)
		}
		if err != nil {
			return nil, fmt.Errorf("make certificate authority in %s: %w", dir, err)
		}
	case err != nil:
		return nil, err
	}
	return load(dir, file, pair)
}

// newAuthority makes an authority, with the existing key if there is one: what that key signed stays valid.
func newAuthority(name string, key []byte) (Pair, error) {
	signer, key, err := useKey(key)
	if err != nil {
		return Pair{}, err
	}
	now := time.Now()
	template := &x509.Certificate{
		Subject:               pkix.Name{CommonName: name},
		DNSNames:              []string{name},
		NotBefore:             now.Add(-skew),
		NotAfter:              now.Add(authorityLife),
		KeyUsage:              x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment | x509.KeyUsageCertSign,
		BasicConstraintsValid: true,
		IsCA:                  true,
	}
	cert, err := sign(template, signer.Public(), template, signer)
	return Pair{Certificate: cert, Key: key}, err
}

func load(dir, base string, pair Pair) (*Authority, error) {
	cert, key, err := pair.parse()
	file := filepath.Join(dir, base+".crt")
	remedy := "put the right pair back, or remove both for a new authority, which ends all credentials of the old one"
	switch {
	case err != nil:
		return nil, fmt.Errorf("%w: %s or %s.key: %w; %s", ErrDamaged, file, base, err, remedy)
	case !cert.IsCA:
		return nil, fmt.Errorf("%w: %s is not an authority's certificate; %s", ErrDamaged, file, remedy)
	case time.Now().After(cert.NotAfter):
		return nil, fmt.Errorf("%w: %s expired at %s; %s", ErrDamaged, file, cert.NotAfter.Format(time.RFC3339), remedy)
	}
	return &Authority{dir: dir, cert: cert, key: key, pem: pair.Certificate}, nil
}

// PEM returns the authority's certificate, with which clients verify its servers.
func (a *Authority) PEM() []byte { return bytes.Clone(a.pem) }

// Pool returns the authority's certificate as a set of roots.
func (a *Authority) Pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	return pool
}

// Subject is the subject of a certificate: a server if it has Hosts, else a client.
type Subject struct {
	// Name of the server, or of the user as API servers read it (the common name).
	Name string
	// Groups of the user (the organizations).
	Groups []string
	// Hosts are the DNS names and IP addresses by which clients reach the server.
	Hosts []string
}

// Issue signs a certificate for a new key, valid from now on for life, but not beyond the authority's end.
func (a *Authority) Issue(s Subject, life time.Duration) (Pair, error) {
	now := time.Now()
	template := &x509.Certificate{
		Subject:     pkix.Name{CommonName: s.Name, Organization: s.Groups},
		NotBefore:   now.Add(-skew),
		NotAfter:    now.Add(life),
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	if template.NotAfter.After(a.cert.NotAfter) {
		template.NotAfter = a.cert.NotAfter
	}
	if len(s.Hosts) > 0 {
		template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
		template.DNSNames, template.IPAddresses = split(s.Hosts)
	}
	signer, key, err := useKey(nil)
	if err != nil {
		return Pair{}, err
	}
	cert, err := sign(template, signer.Public(), a.cert, a.key)
	return Pair{Certificate: cert, Key: key}, err
}

// NotAfter is when the authority's own certificate expires.
func (a *Authority) NotAfter() time.Time { return a.cert.NotAfter }

// Sign returns the PEM of a certificate of somebody else's public key, made from a template except for its serial number. What
// the template says is the caller's responsibility.
func (a *Authority) Sign(template *x509.Certificate, key crypto.PublicKey) ([]byte, error) {
	own := *template
	return sign(&own, key, a.cert, a.key)
}

// Keep returns the certificate that the directory holds under name. It issues and stores a new one if there is none, if
// less than a third of its life is left, or if it has another subject or authority.
func (a *Authority) Keep(name string, s Subject, life time.Duration) (Pair, error) {
	if a.dir == "" {
		return a.Issue(s, life)
	}
	pair, err := read(a.dir, name)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, errKeyAlone):
	case err != nil:
		return Pair{}, err
	default:
		cert, _, err := pair.parse()
		if err != nil {
			return Pair{}, fmt.Errorf("%w: %s: %w; remove %s.crt and %s.key for new ones", ErrDamaged, filepath.Join(a.dir, name+".crt"), err, name, name)
		}
		if a.fits(cert, s, life) {
			return pair, nil
		}
	}
	if pair, err = a.Issue(s, life); err != nil {
		return Pair{}, err
	}
	return pair, write(a.dir, name, pair)
}

// fits reports whether a certificate can still be used.
func (a *Authority) fits(cert *x509.Certificate, s Subject, life time.Duration) bool {
	dns, ips := split(s.Hosts)
	return cert.CheckSignatureFrom(a.cert) == nil &&
		time.Until(cert.NotAfter) > min(life, time.Until(a.cert.NotAfter))/3 &&
		cert.Subject.CommonName == s.Name && slices.Equal(slices.Sorted(slices.Values(cert.Subject.Organization)), slices.Sorted(slices.Values(s.Groups))) &&
		slices.Equal(cert.DNSNames, dns) && slices.EqualFunc(cert.IPAddresses, ips, net.IP.Equal)
}

// split separates addresses from names, each sorted and without duplicates.
func split(hosts []string) (dns []string, ips []net.IP) {
	for _, host := range slices.Compact(slices.Sorted(slices.Values(hosts))) {
		if ip := net.ParseIP(host); ip != nil {
			ips = append(ips, ip)
		} else {
			dns = append(dns, host)
		}
	}
	return dns, ips
}

// useKey reads a PEM key, or creates it.
func useKey(key []byte) (crypto.Signer, []byte, error) {
	if key != nil {
		block, _ := pem.Decode(key)
		if block == nil {
			return nil, nil, fmt.Errorf("%w: the key is not PEM; put the right one back, or remove it for a new one", ErrDamaged)
		}
		parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
		signer, ok := parsed.(crypto.Signer)
		if err != nil || !ok {
			return nil, nil, fmt.Errorf("%w: the key cannot be read; put the right one back, or remove it for a new one", ErrDamaged)
		}
		return signer, key, nil
	}
	made, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("make key: %w", err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(made)
	if err != nil {
		return nil, nil, fmt.Errorf("encode key: %w", err)
	}
	return made, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), nil
}

// sign returns a PEM certificate of a public key.
func sign(template *x509.Certificate, public crypto.PublicKey, by *x509.Certificate, signer crypto.Signer) ([]byte, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, fmt.Errorf("make serial number: %w", err)
	}
	template.SerialNumber = serial
	der, err := x509.CreateCertificate(rand.Reader, template, by, public, signer)
	if err != nil {
		return nil, fmt.Errorf("sign certificate for %q: %w", template.Subject.CommonName, err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), nil
}
