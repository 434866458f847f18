package storagetest_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/keelson-dev/keelson/storage"
	"github.com/keelson-dev/keelson/storage/memory"
)

// history is how many changes the stores of these tests keep.
const history = 250

// calls are the methods of a store, to be replaced one by one.
type calls struct {
	get      func(ctx context.Context, key string) (storage.Record, error)
	list     func(ctx context.Context, prefix string, o storage.ListOptions) (storage.Page, error)
	revision func(ctx context.Context) (int64, error)
	create   func(ctx context.Context, key string, value []byte) (int64, error)
	update   func(ctx context.Context, key string, value []byte, expected int64) (int64, error)
	delete   func(ctx context.Context, key string, expected int64) (int64, error)
	watch    func(ctx context.Context, prefix string, after int64) (storage.Stream, error)
	oldest   func(ctx context.Context) (int64, error)
	compact  func(ctx context.Context, revision int64) error
	expire   func(key string, revision int64, ttl time.Duration)
	stale    func(ctx context.Context, key string) (bool, error)
	close    func() error
}

// store is a storage.Store that implements all there is, with calls that a test may break.
type store struct {
	*memory.Store
	calls

	mu    sync.Mutex
	floor int64 // of Compact
}

func newStore() *store {
	s := &store{Store: memory.New(memory.Options{History: history})}
	s.calls = calls{
		get: s.Store.Get, list: s.listAbove, revision: s.Store.Revision, create: s.Store.Create, update: s.Store.Update,
		delete: s.Store.Delete, watch: s.watchAbove, oldest: s.oldestAbove, compact: s.cut, expire: s.expireAfter, close: s.Store.Close,
		stale: func(ctx context.Context, key string) (bool, error) {
			_, err := s.Store.Get(ctx, key)
			return false, err
		},
	}
	return s
}

func (s *store) Get(ctx context.Context, key string) (storage.Record, error) {
	return s.calls.get(ctx, key)
}

func (s *store) List(ctx context.Context, prefix string, o storage.ListOptions) (storage.Page, error) {
	return s.calls.list(ctx, prefix, o)
}

func (s *store) Revision(ctx context.Context) (int64, error) { return s.calls.revision(ctx) }

func (s *store) Create(ctx context.Context, key string, value []byte) (int64, error) {
	return s.calls.create(ctx, key, value)
}

func (s *store) Update(ctx context.Context, key string, value []byte, expected int64) (int64, error) {
	return s.calls.update(ctx, key, value, expected)
}

func (s *store) Delete(ctx context.Context, key string, expected int64) (int64, error) {
	return s.calls.delete(ctx, key, expected)
}

func (s *store) Watch(ctx context.Context, prefix string, after int64) (storage.Stream, error) {
	return s.calls.watch(ctx, prefix, after)
}

func (s *store) Oldest(ctx context.Context) (int64, error) { return s.calls.oldest(ctx) }

func (s *store) Compact(ctx context.Context, revision int64) error {
	return s.calls.compact(ctx, revision)
}

func (s *store) Stale(ctx context.Context, key string) (bool, error) { return s.calls.stale(ctx, key) }

func (s *store) Close() error { return s.calls.close() }

func (s *store) CreateFor(ctx context.Context, key string, value []byte, ttl time.Duration) (int64, error) {
	revision, err := s.calls.create(ctx, key, value)
	if err == nil {
		s.calls.expire(key, revision, ttl)
	}
	return revision, err
}

func (s *store) UpdateFor(ctx context.Context, key string, value []byte, expected int64, ttl time.Duration) (int64, error) {
	revision, err := s.calls.update(ctx, key, value, expected)
	if err == nil {
		s.calls.expire(key, revision, ttl)
	}
	return revision, err
}

func (s *store) expireAfter(key string, revision int64, ttl time.Duration) {
	time.AfterFunc(ttl, func() {
		_, _ = s.Store.Delete(context.Background(), key, revision) // fails if it was replaced
	})
}

func (s *store) cut(ctx context.Context, revision int64) error {
	now, err := s.Store.Revision(ctx)
	if err != nil || revision > now {
		return fmt.Errorf("%w, %w", storage.ErrFutureRevision, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.floor = max(s.floor, revision)
	return nil
}

func (s *store) above(revision int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if revision < s.floor {
		return storage.ErrCompacted
	}
	return nil
}

func (s *store) listAbove(ctx context.Context, prefix string, o storage.ListOptions) (storage.Page, error) {
	if o.Revision != 0 {
		if err := s.above(o.Revision); err != nil {
			return storage.Page{}, err
		}
	}
	return s.Store.List(ctx, prefix, o)
}

func (s *store) watchAbove(ctx context.Context, prefix string, after int64) (storage.Stream, error) {
	if err := s.above(after); err != nil {
		return nil, err
	}
	return s.Store.Watch(ctx, prefix, after)
}

func (s *store) oldestAbove(ctx context.Context) (int64, error) {
	oldest, err := s.Store.Oldest(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	return max(oldest, s.floor), err
}

// next is a stream's method.
type next func(ctx context.Context) ([]storage.Event, error)

// brokenStream is a stream with a different Next.
type brokenStream struct {
	storage.Stream
	next next
}

func (b *brokenStream) Next(ctx context.Context) ([]storage.Event, error) { return b.next(ctx) }

// streams breaks every stream of a store.
func (s *store) streams(wrap func(storage.Stream) next) {
	watch := s.calls.watch
	s.calls.watch = func(ctx context.Context, prefix string, after int64) (storage.Stream, error) {
		stream, err := watch(ctx, prefix, after)
		if err != nil {
			return nil, err
		}
		return &brokenStream{stream, wrap(stream)}, nil
	}
}

// events breaks what every stream delivers, batch by batch.
func (s *store) events(change func([]storage.Event) []storage.Event) {
	s.streams(func(stream storage.Stream) next {
		return func(ctx context.Context) ([]storage.Event, error) {
			for {
				events, err := stream.Next(ctx)
				if events = change(events); err != nil || len(events) > 0 {
					return events, err
				}
			}
		}
	})
}

// each breaks every event of every stream; false drops it.
func (s *store) each(change func(e *storage.Event) bool) {
	s.events(func(events []storage.Event) []storage.Event {
		kept := events[:0]
		for _, e := range events {
			if change(&e) {
				kept = append(kept, e)
			}
		}
		return kept
	})
}

// pages breaks every list's answer.
func (s *store) pages(change func(prefix string, o storage.ListOptions, page *storage.Page)) {
	list := s.calls.list
	s.calls.list = func(ctx context.Context, prefix string, o storage.ListOptions) (storage.Page, error) {
		page, err := list(ctx, prefix, o)
		if err == nil {
			change(prefix, o, &page)
		}
		return page, err
	}
}

// onDemand makes streams deliver progress only when Revision has returned a revision since: a stream without requests
// stays idle. A forgetful one does not report a later revision.
func (s *store) onDemand(forgetful bool) {
	var mu sync.Mutex
	var asked int64
	rang := make(chan struct{})
	revision := s.calls.revision
	s.calls.revision = func(ctx context.Context) (int64, error) {
		now, err := revision(ctx)
		mu.Lock()
		defer mu.Unlock()
		if now > asked {
			asked = now
			close(rang)
			rang = make(chan struct{})
		}
		return now, err
	}
	s.streams(func(stream storage.Stream) next {
		var held, told int64 // progress held back, and progress delivered
		return func(ctx context.Context) ([]storage.Event, error) {
			for {
				mu.Lock()
				due, bell := held > 0 && asked > told, rang
				if forgetful {
					due = held > 0 && asked >= held
				}
				mu.Unlock()
				if due {
					event := storage.Event{Type: storage.Progress, Revision: held}
					held, told = 0, held
					return []storage.Event{event}, nil
				}
				events, err := nextOr(ctx, stream, bell)
				if err != nil {
					return nil, err
				}
				if n := len(events); n > 0 && events[n-1].Type == storage.Progress {
					held, events = events[n-1].Revision, events[:n-1]
				} else if n > 0 {
					held, told = 0, events[n-1].Revision // a change is further
				}
				if len(events) > 0 {
					return events, nil
				}
			}
		}
	})
}

// nextOr is Next, but returns nothing if bell is closed first.
func nextOr(ctx context.Context, stream storage.Stream, bell <-chan struct{}) ([]storage.Event, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	inner, cancel := context.WithCancel(ctx)
	defer cancel()
	done := make(chan struct{})
	defer func() { <-done }()
	finished := make(chan struct{})
	defer close(finished)
	go func() {
		defer close(done)
		select {
		case <-bell:
			cancel()
		case <-finished:
		}
	}()
	events, err := stream.Next(inner)
	if errors.Is(err, context.Canceled) && ctx.Err() == nil {
		return nil, nil
	}
	return events, err
}
