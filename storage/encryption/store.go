package encryption

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/keelson-dev/keelson/storage"
)

// New returns a store that keeps its values in inner in the form that transformers choose. It is a
// storage.Refresher and a storage.Wrapper, and a storage.Lessor where inner is one. Closing inner
// remains the caller's; the layer has nothing to close.
//
// Writes whose value cannot be sealed fail with the transformer's error and change nothing. A value
// that cannot be opened is told as storage.ErrUnreadable, see the package. Seal and Open run in the caller's
// goroutine.
func New(inner storage.Store, transformers Transformers) storage.Store {
	l := &layer{inner: inner, transformers: transformers}
	if able, ok := storage.As[storage.Lessor](inner); ok {
		return lessor{l, able}
	}
	return l
}

type layer struct {
	inner        storage.Store
	transformers Transformers
}

// Unwrap returns the store in which values are sealed: what it can do without reading or writing values,
// it does for the layer.
func (l *layer) Unwrap() storage.Store { return l.inner }

func (l *layer) transformer(key string) Transformer {
	if t := l.transformers.For(key); t != nil {
		return t
	}
	return Identity{}
}

func (l *layer) seal(ctx context.Context, key string, value []byte) ([]byte, error) {
	sealed, err := l.transformer(key).Seal(ctx, nil, key, value)
	if err != nil {
		return nil, fmt.Errorf("encrypting %s: %w", key, err)
	}
	return sealed, nil
}

// open tells a value. Its error is the context's when that ended, and an ErrUnreadable else.
func (l *layer) open(ctx context.Context, key string, stored []byte) (value []byte, stale bool, err error) {
	value, stale, err = l.transformer(key).Open(ctx, key, stored)
	switch {
	case err == nil && value == nil:
		return []byte{}, stale, nil // a value of no bytes is not the lack of one
	case err == nil:
		return value, stale, nil
	case ctx.Err() != nil:
		return nil, false, ctx.Err()
	}
	return nil, false, unreadable{err}
}

// unreadable is an ErrUnreadable in the words of the transformer, which are upstream's.
type unreadable struct{ error }

func (u unreadable) Unwrap() []error { return []error{storage.ErrUnreadable, u.error} }

// record opens a record of inner in place. The error is that of the context.
func (l *layer) record(ctx context.Context, r *storage.Record) error {
	if r.Err != nil {
		return nil //nolint:nilerr // it is the record's
	}
	r.Value, _, r.Err = l.open(ctx, r.Key, r.Value)
	if r.Err != nil {
		return ctx.Err()
	}
	return nil
}

// Get is as the contract says.
func (l *layer) Get(ctx context.Context, key string) (storage.Record, error) {
	r, err := l.inner.Get(ctx, key)
	if err != nil {
		return r, err
	}
	if err := l.record(ctx, &r); err != nil {
		return storage.Record{}, err
	}
	return r, r.Err
}

// List is as the contract says.
func (l *layer) List(ctx context.Context, prefix string, options storage.ListOptions) (storage.Page, error) {
	page, err := l.inner.List(ctx, prefix, options)
	if err != nil {
		return page, err
	}
	page.Records = slices.Clone(page.Records)
	for i := range page.Records {
		if err := l.record(ctx, &page.Records[i]); err != nil {
			return storage.Page{}, err
		}
	}
	return page, nil
}

// Revision is inner's.
func (l *layer) Revision(ctx context.Context) (int64, error) { return l.inner.Revision(ctx) }

// Create is as the contract says.
func (l *layer) Create(ctx context.Context, key string, value []byte) (int64, error) {
	sealed, err := l.seal(ctx, key, value)
	if err != nil {
		return 0, err
	}
	return l.inner.Create(ctx, key, sealed)
}

// Update is as the contract says.
func (l *layer) Update(ctx context.Context, key string, value []byte, expected int64) (int64, error) {
	sealed, err := l.seal(ctx, key, value)
	if err != nil {
		return 0, err
	}
	return l.inner.Update(ctx, key, sealed, expected)
}

// Delete is inner's: what cannot be read can be deleted.
func (l *layer) Delete(ctx context.Context, key string, expected int64) (int64, error) {
	return l.inner.Delete(ctx, key, expected)
}

// Watch is as the contract says.
func (l *layer) Watch(ctx context.Context, prefix string, after int64) (storage.Stream, error) {
	inner, err := l.inner.Watch(ctx, prefix, after)
	if err != nil {
		return nil, err
	}
	return &stream{Stream: inner, layer: l}, nil
}

// Stale tells whether the record of key is not in the form that a write would give it. With
// storage.ErrUnreadable it cannot be told.
func (l *layer) Stale(ctx context.Context, key string) (bool, error) {
	r, err := l.inner.Get(ctx, key)
	if err != nil {
		return false, err
	}
	_, stale, err := l.open(ctx, key, r.Value)
	if err != nil || stale {
		return stale, err
	}
	if inner, ok := storage.As[storage.Refresher](l.inner); ok {
		return inner.Stale(ctx, key)
	}
	return false, nil
}

type stream struct {
	storage.Stream
	layer *layer
	taken []storage.Event // from inner, of which the first done are opened
	done  int
}

// Next opens the next events. When the context ends meanwhile, they are kept for the next call.
func (s *stream) Next(ctx context.Context) ([]storage.Event, error) {
	if s.taken == nil {
		events, err := s.Stream.Next(ctx)
		if err != nil {
			return nil, err
		}
		s.taken, s.done = events, 0
	}
	for ; s.done < len(s.taken); s.done++ {
		if err := s.layer.event(ctx, &s.taken[s.done]); err != nil {
			return nil, err
		}
	}
	events := s.taken
	s.taken = nil
	return events, nil
}

// event opens an event in place, or leaves it as it is when the context ends.
func (l *layer) event(ctx context.Context, e *storage.Event) error {
	value, prev, failed := e.Value, e.Prev, e.Err
	if e.Type == storage.Put && failed == nil {
		value, _, failed = l.open(ctx, e.Key, e.Value)
	}
	if prev != nil {
		// Prev may be missing: a change is told even if nobody can tell what was before.
		prev, _, _ = l.open(ctx, e.Key, e.Prev)
	}
	if (failed != nil || prev == nil) && ctx.Err() != nil {
		return ctx.Err()
	}
	e.Value, e.Prev, e.Err = value, prev, failed
	return nil
}

// lessor is a layer whose inner store is a Lessor.
type lessor struct {
	*layer
	able storage.Lessor
}

// CreateFor is as the contract says.
func (l lessor) CreateFor(ctx context.Context, key string, value []byte, ttl time.Duration) (int64, error) {
	sealed, err := l.seal(ctx, key, value)
	if err != nil {
		return 0, err
	}
	return l.able.CreateFor(ctx, key, sealed, ttl)
}

// UpdateFor is as the contract says.
func (l lessor) UpdateFor(ctx context.Context, key string, value []byte, expected int64, ttl time.Duration) (int64, error) {
	sealed, err := l.seal(ctx, key, value)
	if err != nil {
		return 0, err
	}
	return l.able.UpdateFor(ctx, key, sealed, expected, ttl)
}
