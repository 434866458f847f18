package pki

import (
	"crypto"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/keelson-dev/keelson/internal/atomicfile"
)

// Pair is a certificate and its key.
type Pair struct {
	Certificate []byte // PEM
	Key         []byte // PEM, secret
}

// String leaves the key out.
func (p Pair) String() string { return string(p.Certificate) }

// TLS returns the pair for use in a tls.Config.
func (p Pair) TLS() (tls.Certificate, error) { return tls.X509KeyPair(p.Certificate, p.Key) }

func (p Pair) parse() (*x509.Certificate, crypto.Signer, error) {
	c, err := p.TLS()
	if err != nil {
		return nil, nil, err
	}
	signer, ok := c.PrivateKey.(crypto.Signer)
	if !ok {
		return nil, nil, errors.New("the key cannot sign")
	}
	return c.Leaf, signer, nil
}

// errKeyAlone: there is a key without its certificate, which a crash may leave. The pair has the key.
var errKeyAlone = errors.New("key without certificate")

// read returns the pair of that name; the error is os.ErrNotExist if neither file exists.
func read(dir, name string) (Pair, error) {
	var p Pair
	var certErr, keyErr error
	crt, key := filepath.Join(dir, name+".crt"), filepath.Join(dir, name+".key")
	p.Certificate, certErr = os.ReadFile(crt)
	p.Key, keyErr = os.ReadFile(key)
	switch {
	case errors.Is(certErr, os.ErrNotExist) && keyErr == nil:
		return p, errKeyAlone
	case errors.Is(keyErr, os.ErrNotExist) && certErr == nil:
		return p, fmt.Errorf("%w: %s is there without %s; put the key back, or remove the certificate for a new pair", ErrDamaged, crt, key)
	case certErr != nil:
		return p, fmt.Errorf("read certificate: %w", certErr)
	case keyErr != nil:
		return p, fmt.Errorf("read key: %w", keyErr)
	}
	return p, nil
}

// write stores a pair. A crash leaves the old pair, none, the key alone, or the new one.
func write(dir, name string, p Pair) error {
	crt, key := filepath.Join(dir, name+".crt"), filepath.Join(dir, name+".key")
	if err := os.Remove(crt); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("replace certificate: %w", err)
	}
	if err := os.Remove(key); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("replace key: %w", err)
	}
	if err := atomicfile.Write(key, p.Key, 0o600); err != nil {
		return fmt.Errorf("write key: %w", err)
	}
	if err := atomicfile.Write(crt, p.Certificate, 0o644); err != nil {
		return fmt.Errorf("write certificate: %w", err)
	}
	return nil
}
