package kms_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/keelson-dev/keelson/storage/encryption/kms"
)

// fake is a plugin in the test's process, for virtual time. It encrypts by writing the key's ID before the text.
type fake struct {
	mu       sync.Mutex
	status   kms.Status
	encrypt  func(kms.Sealed) kms.Sealed // changes what Encrypt returns
	down     error                       // what calls fail with
	takes    time.Duration               // how long calls hang before that
	decrypts int
	statuses int
}

var errDown = fmt.Errorf("%w: nobody there", kms.ErrUnavailable)

func newFake() *fake {
	return &fake{status: kms.Status{Version: "v2", Health: "ok", KeyID: "key-1"}}
}

func (f *fake) set(change func(*fake)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change(f)
}

func (f *fake) answer(ctx context.Context, count func()) error {
	f.mu.Lock()
	count()
	takes, down := f.takes, f.down
	f.mu.Unlock()
	if takes > 0 {
		select {
		case <-time.After(takes):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return down
}

func (f *fake) Status(ctx context.Context) (kms.Status, error) {
	if err := f.answer(ctx, func() { f.statuses++ }); err != nil {
		return kms.Status{}, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.status, nil
}

func (f *fake) Encrypt(ctx context.Context, _ string, plaintext []byte) (kms.Sealed, error) {
	if err := f.answer(ctx, func() {}); err != nil {
		return kms.Sealed{}, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	sealed := kms.Sealed{
		Ciphertext: append([]byte(f.status.KeyID+"|"), plaintext...), KeyID: f.status.KeyID,
		Annotations: map[string][]byte{"a.example.com": []byte("1"), "b.example.com": nil},
	}
	if f.encrypt != nil {
		sealed = f.encrypt(sealed)
	}
	return sealed, nil
}

var errWrongKey = errors.New("encrypted with another key")

func (f *fake) Decrypt(ctx context.Context, _ string, sealed kms.Sealed) ([]byte, error) {
	if err := f.answer(ctx, func() { f.decrypts++ }); err != nil {
		return nil, err
	}
	id, text, _ := strings.Cut(string(sealed.Ciphertext), "|")
	if id != sealed.KeyID || string(sealed.Annotations["a.example.com"]) != "1" {
		return nil, errWrongKey
	}
	return []byte(text), nil
}

func (f *fake) decrypted() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.decrypts
}
