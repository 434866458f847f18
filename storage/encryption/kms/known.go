package kms

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/keelson-dev/keelson/storage/encryption"
)

// knownFor is how long what a source gives is kept after its last use.
const knownFor = 24 * time.Hour

// known is what sources were decrypted to. There are about as many as the plugin had keys times the
// number of starts of servers. The zero value is empty.
type known struct {
	mu      sync.RWMutex
	sources map[string]*source // by envelope.appendRest
	swept   time.Time
}

type source struct {
	encryption.Transformer
	keyID string
	kind  uint64
	used  time.Time // below known.mu; only to the hour
}

func (k *known) get(rest []byte) *source {
	now := time.Now()
	k.mu.RLock()
	s := k.sources[string(rest)]
	fresh := s != nil && now.Sub(s.used) < time.Hour
	k.mu.RUnlock()
	if s == nil {
		return nil
	}
	if !fresh {
		k.mu.Lock()
		s.used = now
		k.mu.Unlock()
	}
	return s
}

func (k *known) put(rest []byte, s *source) {
	now := time.Now()
	s.used = now
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.sources == nil {
		k.sources = map[string]*source{}
	}
	k.sources[string(rest)] = s
	if now.Sub(k.swept) < time.Hour {
		return
	}
	k.swept = now
	for rest, s := range k.sources {
		if now.Sub(s.used) > knownFor {
			delete(k.sources, rest)
		}
	}
}

// breaker keeps callers from waiting one after the other for a plugin that does not answer. The zero
// value lets calls through.
type breaker struct {
	mu    sync.Mutex
	until time.Time
	err   error
}

func call[T any](ctx context.Context, b *breaker, f func() (T, error)) (T, error) {
	if err := b.open(); err != nil {
		var none T
		return none, err
	}
	out, err := f()
	if ctx.Err() != nil {
		return out, err // says nothing about the plugin
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if errors.Is(err, ErrUnavailable) {
		b.until, b.err = time.Now().Add(unhealthyFor), err
	} else {
		b.err = nil
	}
	return out, err
}

func (b *breaker) open() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.err != nil && time.Now().Before(b.until) {
		return fmt.Errorf("not asked again yet: %w", b.err)
	}
	return nil
}
