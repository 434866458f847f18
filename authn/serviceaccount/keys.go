package serviceaccount

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	jose "github.com/go-jose/go-jose/v4"
)

// Errors about keys; test for them with errors.Is.
var (
	// ErrKey: a key is of an unsupported kind.
	ErrKey = errors.New("unusable service account key")
	// ErrNoSigningKey: the Keys can only verify.
	ErrNoSigningKey = errors.New("no key to sign service account tokens with")
)

// Keys are the key that signs tokens and those that verify them. To rotate keys, first let all servers verify with the
// new one, then let them sign with it, and drop the old one when the last token it signed has expired.
type Keys struct {
	current atomic.Pointer[keySet]
}

// keySet is an immutable version of Keys.
type keySet struct {
	signer jose.Signer // nil: cannot sign
	keys   []publicKey
	jwks   []byte
}

type publicKey struct {
	id  string
	alg jose.SignatureAlgorithm
	key crypto.PublicKey
}

// NewKeys returns Keys that sign with one key and verify with that and others. With a nil
// signing key they only verify. Keys are *rsa.PrivateKey and *ecdsa.PrivateKey, or their public keys.
func NewKeys(signing crypto.Signer, verifying ...crypto.PublicKey) (*Keys, error) {
	k := &Keys{}
	return k, k.Replace(signing, verifying...)
}

// Replace replaces the keys, at once for everything that uses these Keys. Tokens of removed keys fail. On an error, the
// keys stay as they are.
func (k *Keys) Replace(signing crypto.Signer, verifying ...crypto.PublicKey) error {
	set := &keySet{}
	if signing != nil {
		own, err := newPublicKey(signing.Public())
		if err != nil {
			return err
		}
		if set.signer, err = newSigner(signing, own); err != nil {
			return err
		}
		set.keys = append(set.keys, own)
	}
	for _, v := range verifying {
		key, err := newPublicKey(v)
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(set.keys, func(k publicKey) bool { return k.id == key.id }) {
			set.keys = append(set.keys, key)
		}
	}
	if len(set.keys) == 0 {
		return fmt.Errorf("%w: there is none", ErrKey)
	}
	var err error
	if set.jwks, err = marshalJWKS(set.keys); err != nil {
		return err
	}
	k.current.Store(set)
	return nil
}

func newSigner(key crypto.Signer, own publicKey) (jose.Signer, error) {
	switch key.(type) {
	case *rsa.PrivateKey, *ecdsa.PrivateKey:
	default:
		return nil, fmt.Errorf("%w: private key of type %T, must be *rsa.PrivateKey or *ecdsa.PrivateKey", ErrKey, key)
	}
	signer, err := jose.NewSigner(jose.SigningKey{
		Algorithm: own.alg,
		Key:       jose.JSONWebKey{Key: key, KeyID: own.id, Algorithm: string(own.alg), Use: "sig"},
	}, nil)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrKey, err)
	}
	return signer, nil
}

func newPublicKey(key crypto.PublicKey) (publicKey, error) {
	alg, err := algorithm(key)
	if err != nil {
		return publicKey{}, err
	}
	id, err := KeyID(key)
	return publicKey{id: id, alg: alg, key: key}, err
}

func algorithm(key crypto.PublicKey) (jose.SignatureAlgorithm, error) {
	switch key := key.(type) {
	case *rsa.PublicKey:
		return jose.RS256, nil
	case *ecdsa.PublicKey:
		switch key.Curve {
		case elliptic.P256():
			return jose.ES256, nil
		case elliptic.P384():
			return jose.ES384, nil
		case elliptic.P521():
			return jose.ES512, nil
		}
		return "", fmt.Errorf("%w: curve %s, must be P-256, P-384 or P-521", ErrKey, key.Curve.Params().Name)
	}
	return "", fmt.Errorf("%w: public key of type %T, must be *rsa.PublicKey or *ecdsa.PublicKey", ErrKey, key)
}

// KeyID returns the ID of a public key in tokens and key sets: as in upstream, a hash of its PKIX encoding.
func KeyID(key crypto.PublicKey) (string, error) {
	der, err := x509.MarshalPKIXPublicKey(key)
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrKey, err)
	}
	sum := sha256.Sum256(der)
	return base64.RawURLEncoding.EncodeToString(sum[:]), nil
}

// named returns the keys of that ID, or all when the token names none.
func (s *keySet) named(id string) []publicKey {
	if id == "" {
		return s.keys
	}
	for i := range s.keys {
		if s.keys[i].id == id {
			return s.keys[i : i+1]
		}
	}
	return nil
}

func marshalJWKS(keys []publicKey) ([]byte, error) {
	var set jose.JSONWebKeySet
	for _, k := range keys {
		set.Keys = append(set.Keys, jose.JSONWebKey{Key: k.key, KeyID: k.id, Algorithm: string(k.alg), Use: "sig"})
	}
	data, err := json.Marshal(set)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrKey, err)
	}
	return data, nil
}
