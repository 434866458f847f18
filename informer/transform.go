package informer

import (
	"context"
	"fmt"
)

// Lister is what a Source may implement beside List: it hands over the objects of a list one by
// one, in any order, so that not all of them are there at once before they are cut down.
type Lister[T Object] interface {
	// ListEach calls each with the objects of a list and returns the version they are consistent
	// at. It fails with the error of each, which it then does not call again.
	ListEach(ctx context.Context, each func(T) error) (version string, err error)
}

// Transform is a Source of what f makes of the objects of another: with fields left out that
// nobody reads, for example. f must not change the object it gets unless source hands out
// objects that nobody else has, as package wire does and the registry does not; it must leave
// the key and the resource version alone, and may be called from several goroutines.
//
// When f fails, so does the list in which the object was. An event whose object it fails on
// becomes a Bookmark: the change is lost, and failed, unless nil, is told.
func Transform[T Object](source Source[T], f func(T) (T, error), failed func(T, error)) Source[T] {
	if failed == nil {
		failed = func(T, error) {}
	}
	return &transformed[T]{source: source, f: f, failed: failed}
}

type transformed[T Object] struct {
	source Source[T]
	f      func(T) (T, error)
	failed func(T, error)
}

func (t *transformed[T]) List(ctx context.Context) ([]T, string, error) {
	if lister, ok := t.source.(Lister[T]); ok {
		var out []T
		version, err := lister.ListEach(ctx, func(obj T) error {
			made, err := t.one(obj)
			out = append(out, made)
			return err
		})
		if err != nil {
			return nil, "", err
		}
		return out, version, nil
	}
	items, version, err := t.source.List(ctx)
	if err != nil {
		return nil, "", err
	}
	out := make([]T, len(items)) // the slice may be shared
	for n, obj := range items {
		if out[n], err = t.one(obj); err != nil {
			return nil, "", err
		}
	}
	return out, version, nil
}

func (t *transformed[T]) one(obj T) (T, error) {
	made, err := t.f(obj)
	if err != nil {
		return made, fmt.Errorf("transform %s: %w", keyOf(obj).path(), err)
	}
	return made, nil
}

func (t *transformed[T]) Watch(ctx context.Context, version string) (Stream[T], error) {
	stream, err := t.source.Watch(ctx, version)
	if err != nil {
		return nil, err
	}
	return &transformedStream[T]{Stream: stream, source: t}, nil
}

type transformedStream[T Object] struct {
	Stream[T]
	source *transformed[T]
}

func (s *transformedStream[T]) Next(ctx context.Context) ([]Event[T], error) {
	events, err := s.Stream.Next(ctx)
	if err != nil {
		return nil, err
	}
	out := make([]Event[T], len(events)) // the slice may be shared
	for n, e := range events {
		if e.Type != Bookmark {
			made, err := s.source.one(e.Object)
			if err != nil {
				s.source.failed(e.Object, err)
				e = Event[T]{Type: Bookmark, Version: e.Version}
			} else {
				e.Object = made
			}
		}
		out[n] = e
	}
	return out, nil
}
