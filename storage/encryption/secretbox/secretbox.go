package secretbox

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"

	"golang.org/x/crypto/nacl/secretbox"

	"github.com/keelson-dev/keelson/storage/encryption"
)

// Errors of stored forms that were not written with the key, in upstream's words.
var (
	ErrShort = errors.New("the stored data was shorter than the required size")
	// ErrForged: the key is another one, or the stored form was changed. The words mislead.
	ErrForged = errors.New("output array was not large enough for encryption")
)

const (
	keySize   = 32
	nonceSize = 24
)

// New returns the transformer of a key of 32 bytes. A stored form is the nonce and what it seals.
func New(key []byte) (encryption.Transformer, error) {
	if len(key) != keySize {
		return nil, fmt.Errorf("expected key size 32 for secretbox provider, got %d", len(key))
	}
	return &transformer{key: [keySize]byte(key)}, nil
}

type transformer struct{ key [keySize]byte }

func (t *transformer) Seal(_ context.Context, dst []byte, _ string, value []byte) ([]byte, error) {
	var nonce [nonceSize]byte
	_, _ = rand.Read(nonce[:]) // never fails
	return secretbox.Seal(append(dst, nonce[:]...), value, &nonce, &t.key), nil
}

func (t *transformer) Open(_ context.Context, _ string, stored []byte) ([]byte, bool, error) {
	if len(stored) < nonceSize+secretbox.Overhead {
		return nil, false, ErrShort
	}
	nonce := [nonceSize]byte(stored)
	value, ok := secretbox.Open(nil, stored[nonceSize:], &nonce, &t.key)
	if !ok {
		return nil, false, ErrForged
	}
	return value, false, nil
}
