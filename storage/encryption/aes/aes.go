package aes

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"

	"github.com/keelson-dev/keelson/storage/encryption"
)

// Errors of stored forms that were never written by the transformer, in upstream's words.
var (
	ErrShort   = errors.New("the stored data was shorter than the required size")
	ErrBlocks  = errors.New("the stored data is not a multiple of the block size")
	ErrPadded  = errors.New("invalid PKCS7 data (empty or not padded)")
	ErrPadding = errors.New("invalid padding on input")
)

const (
	nonceSize = 12
	keySize   = 32
	infoSize  = 32
	// SeedSize is how many random bytes a seed has at least.
	SeedSize = 32
)

// NewGCM returns AES-GCM with random nonces, upstream's aesgcm: nonce, encrypted value, tag. It
// authenticates the value and the key of the record.
func NewGCM(key []byte) (encryption.Transformer, error) {
	aead, err := newGCM(key)
	if err != nil {
		return nil, err
	}
	return gcm{aead}, nil
}

func newGCM(key []byte) (cipher.AEAD, error) {
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCM(block)
}

type gcm struct{ aead cipher.AEAD }

func (t gcm) Seal(_ context.Context, dst []byte, key string, value []byte) ([]byte, error) {
	return seal(t.aead, dst, key, value), nil
}

func seal(aead cipher.AEAD, dst []byte, key string, value []byte) []byte {
	dst = slices.Grow(dst, nonceSize+len(value)+aead.Overhead())
	nonce := dst[len(dst) : len(dst)+nonceSize]
	_, _ = rand.Read(nonce) // never fails
	return aead.Seal(dst[:len(dst)+nonceSize], nonce, value, []byte(key))
}

func (t gcm) Open(_ context.Context, key string, stored []byte) ([]byte, bool, error) {
	value, err := open(t.aead, key, stored)
	return value, false, err
}

func open(aead cipher.AEAD, key string, stored []byte) ([]byte, error) {
	if len(stored) < nonceSize {
		return nil, ErrShort
	}
	return aead.Open(nil, stored[:nonceSize], stored[nonceSize:], []byte(key))
}

// NewSeed returns AES-GCM under a key of its own for every value, derived from the seed and 32 random bytes,
// as upstream's KMS v2 uses it: random bytes, nonce, encrypted value, tag. It authenticates the
// value and the key of the record. The seed must be random, of SeedSize bytes or more.
func NewSeed(seed []byte) (encryption.Transformer, error) {
	if len(seed) < SeedSize {
		return nil, fmt.Errorf("invalid seed length %d used for key generation", len(seed))
	}
	return seeded{slices.Clone(seed)}, nil
}

type seeded struct{ seed []byte }

func (t seeded) derive(info []byte) (cipher.AEAD, error) {
	key, err := hkdf.Expand(sha256.New, t.seed, string(info), keySize)
	if err != nil {
		return nil, fmt.Errorf("deriving a key: %w", err)
	}
	return newGCM(key)
}

func (t seeded) Seal(_ context.Context, dst []byte, key string, value []byte) ([]byte, error) {
	dst = slices.Grow(dst, infoSize+nonceSize+len(value)+16)
	info := dst[len(dst) : len(dst)+infoSize]
	_, _ = rand.Read(info) // never fails
	aead, err := t.derive(info)
	if err != nil {
		return nil, err
	}
	return seal(aead, dst[:len(dst)+infoSize], key, value), nil
}

func (t seeded) Open(_ context.Context, key string, stored []byte) ([]byte, bool, error) {
	if len(stored) < infoSize {
		return nil, false, ErrShort
	}
	aead, err := t.derive(stored[:infoSize])
	if err != nil {
		return nil, false, err
	}
	value, err := open(aead, key, stored[infoSize:])
	return value, false, err
}

// NewCBC returns AES-CBC with PKCS#7 padding, upstream's aescbc: initialization vector, encrypted value.
// It authenticates nothing: whoever can write to the store can change values, and learn some of them by
// watching which changes are errors. Use it to read what there is, and [NewGCM] to write.
func NewCBC(key []byte) (encryption.Transformer, error) {
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return cbc{block}, nil
}

type cbc struct{ block cipher.Block }

func (t cbc) Seal(_ context.Context, dst []byte, _ string, value []byte) ([]byte, error) {
	padding := aes.BlockSize - len(value)%aes.BlockSize
	start := len(dst)
	dst = slices.Grow(dst, aes.BlockSize+len(value)+padding)[:start+aes.BlockSize]
	iv := dst[start:]
	_, _ = rand.Read(iv) // never fails
	dst = append(dst, value...)
	for range padding {
		dst = append(dst, byte(padding)) //nolint:gosec // 1 to 16
	}
	body := dst[start+aes.BlockSize:]
	cipher.NewCBCEncrypter(t.block, iv).CryptBlocks(body, body)
	return dst, nil
}

func (t cbc) Open(_ context.Context, _ string, stored []byte) ([]byte, bool, error) {
	if len(stored) < aes.BlockSize {
		return nil, false, ErrShort
	}
	iv, body := stored[:aes.BlockSize], stored[aes.BlockSize:]
	switch {
	case len(body)%aes.BlockSize != 0:
		return nil, false, ErrBlocks
	case len(body) == 0:
		return nil, false, ErrPadded
	}
	value := make([]byte, len(body))
	cipher.NewCBCDecrypter(t.block, iv).CryptBlocks(value, body)
	// Upstream takes longer paddings than a block, so that is what the format is.
	last := value[len(value)-1]
	padding := int(last)
	if padding == 0 || padding > len(value) {
		return nil, false, ErrPadded
	}
	for _, b := range value[len(value)-padding:] {
		if b != last {
			return nil, false, ErrPadding
		}
	}
	return value[:len(value)-padding], false, nil
}
