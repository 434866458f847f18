package serviceaccount

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/keelson-dev/keelson/internal/atomicfile"
)

// ErrKeyFile: a file has no usable key. The error names the file or the PEM block.
var ErrKeyFile = errors.New("malformed key file")

// OpenKey returns the private key in the PEM file at path, for signing. If there is no such file it creates an ECDSA
// P-256 key and the file, readable by its owner only. It also writes the public key to a file beside it, for verifiers:
// that of sa.key is sa.pub.
func OpenKey(path string) (crypto.Signer, error) {
	key, err := openKey(path)
	if err != nil {
		return nil, err
	}
	der, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return nil, err
	}
	beside, text := strings.TrimSuffix(path, ".key")+".pub", pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
	if was, err := os.ReadFile(beside); err == nil && bytes.Equal(was, text) {
		return key, nil
	}
	if err := atomicfile.Write(beside, text, 0o644); err != nil {
		return nil, fmt.Errorf("store the public service account key: %w", err)
	}
	return key, nil
}

func openKey(path string) (crypto.Signer, error) {
	key, err := ReadKey(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return key, err
	}
	made, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	der, err := x509.MarshalPKCS8PrivateKey(made)
	if err != nil {
		return nil, err
	}
	if err := atomicfile.Write(path, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), 0o600); err != nil {
		return nil, fmt.Errorf("store a new service account key: %w", err)
	}
	return made, nil
}

// ReadKey returns the private key in the PEM file at path.
func ReadKey(path string) (crypto.Signer, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	key, err := ParseKey(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return key, nil
}

// ReadPublicKeys returns the public keys in the PEM file at path, for verifying.
func ReadPublicKeys(path string) ([]crypto.PublicKey, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	keys, err := ParsePublicKeys(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return keys, nil
}

// ParseKey returns the first private key in PEM data: PKCS #8, PKCS #1 or SEC 1, RSA or ECDSA.
func ParseKey(data []byte) (crypto.Signer, error) {
	var found crypto.Signer
	err := blocks(data, func(key any) bool {
		found, _ = key.(crypto.Signer)
		return found == nil
	})
	if err == nil && found == nil {
		err = fmt.Errorf("%w: no RSA or ECDSA private key in PEM", ErrKeyFile)
	}
	return found, err
}

// ParsePublicKeys returns all public keys in PEM data: those of public keys, of certificates and of
// private keys.
func ParsePublicKeys(data []byte) ([]crypto.PublicKey, error) {
	var found []crypto.PublicKey
	err := blocks(data, func(key any) bool {
		if private, ok := key.(crypto.Signer); ok {
			key = private.Public()
		}
		found = append(found, key)
		return true
	})
	if err != nil {
		return nil, err
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("%w: no RSA or ECDSA key in PEM", ErrKeyFile)
	}
	return found, nil
}

// blocks passes the keys in PEM data, public and private, to visit until that returns false. Blocks of other types,
// such as EC PARAMETERS, are skipped.
func blocks(data []byte, visit func(key any) bool) error {
	for n := 1; ; n++ {
		var block *pem.Block
		if block, data = pem.Decode(data); block == nil {
			return nil
		}
		key, err := parseBlock(block)
		if err == nil && key != nil {
			if private, ok := key.(crypto.Signer); ok {
				_, err = algorithm(private.Public())
			} else {
				_, err = algorithm(key)
			}
		}
		if err != nil {
			return fmt.Errorf("%w: PEM block %d (%s): %w", ErrKeyFile, n, block.Type, err)
		}
		if key != nil && !visit(key) {
			return nil
		}
	}
}

// parseBlock returns the key in a block, nil for a block type without keys.
func parseBlock(block *pem.Block) (any, error) {
	switch block.Type {
	case "PRIVATE KEY":
		return x509.ParsePKCS8PrivateKey(block.Bytes)
	case "RSA PRIVATE KEY":
		return x509.ParsePKCS1PrivateKey(block.Bytes)
	case "EC PRIVATE KEY":
		return x509.ParseECPrivateKey(block.Bytes)
	case "PUBLIC KEY":
		return x509.ParsePKIXPublicKey(block.Bytes)
	case "RSA PUBLIC KEY":
		return x509.ParsePKCS1PublicKey(block.Bytes)
	case "CERTIFICATE":
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, err
		}
		return cert.PublicKey, nil
	}
	return nil, nil // a block of another type is neither a key nor an error
}
