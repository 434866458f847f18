package kms

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
)

// ErrUnavailable: the plugin did not answer, or not in time.
var ErrUnavailable = errors.New("KMS plugin unavailable")

// Status is what a plugin tells about itself.
type Status struct {
	// Version is that of the protocol, v2 or v2beta1; it never changes.
	Version string
	// Health is "ok" or what is wrong.
	Health string
	// KeyID names the key that the plugin encrypts with. It is public.
	KeyID string
}

// Sealed is something that a plugin encrypted, with what it needs to decrypt it.
type Sealed struct {
	Ciphertext  []byte // what only the service can open
	KeyID       string // of the key that sealed it
	Annotations map[string][]byte
}

// Service is a KMS plugin. Implementations are safe for concurrent use, bound the time of a call, and
// say ErrUnavailable when there is no answer. The uid names the call, for the plugin's log.
type Service interface {
	Status(ctx context.Context) (Status, error)                                // whether the service works, and its current key
	Encrypt(ctx context.Context, uid string, plaintext []byte) (Sealed, error) // uid names the request in logs
	Decrypt(ctx context.Context, uid string, sealed Sealed) ([]byte, error)    // opens what Encrypt returned
}

// hash tells a key ID in logs and errors, as upstream does.
func hash(keyID string) string {
	if keyID == "" {
		return ""
	}
	return fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(keyID)))
}
