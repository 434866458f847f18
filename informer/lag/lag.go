// Package lag is a Source whose changes can be kept back, so that the caches behind it are stale for as long as a test
// wants, as those of a busy cluster are.
//
// A Source is safe for concurrent use and starts no goroutines. What it is made of makes its errors.
package lag

import (
	"context"
	"sync"

	"github.com/keelson-dev/keelson/informer"
)

// Source is an informer.Source over another. Make one with New.
type Source[T informer.Object] struct {
	inner informer.Source[T]

	mu      sync.Mutex
	release chan struct{} // closed by Resume; nil when nothing is held
}

// New returns a source that tells what inner tells, at once.
func New[T informer.Object](inner informer.Source[T]) *Source[T] { return &Source[T]{inner: inner} }

// Hold keeps changes from all watches, those that are there and those to come, until Resume. Lists still show the
// newest state.
func (s *Source[T]) Hold() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.release == nil {
		s.release = make(chan struct{})
	}
}

// Resume lets the changes through that were held back, and those that follow.
func (s *Source[T]) Resume() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.release != nil {
		close(s.release)
		s.release = nil
	}
}

func (s *Source[T]) held() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.release
}

// List implements informer.Source.
func (s *Source[T]) List(ctx context.Context) ([]T, string, error) { return s.inner.List(ctx) }

// Watch implements informer.Source.
func (s *Source[T]) Watch(ctx context.Context, version string) (informer.Stream[T], error) {
	inner, err := s.inner.Watch(ctx, version)
	if err != nil {
		return nil, err
	}
	return &stream[T]{Stream: inner, source: s}, nil
}

type stream[T informer.Object] struct {
	informer.Stream[T]
	source *Source[T]
	kept   []informer.Event[T] // read, and held back
}

// Next implements informer.Stream.
func (s *stream[T]) Next(ctx context.Context) ([]informer.Event[T], error) {
	if len(s.kept) == 0 {
		events, err := s.Stream.Next(ctx)
		if err != nil {
			return nil, err
		}
		s.kept = events
	}
	for wait := s.source.held(); wait != nil; wait = s.source.held() {
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-wait:
		}
	}
	events := s.kept
	s.kept = nil
	return events, nil
}
