package informer

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Lister is an optional interface of a Source: it lists objects one by one, so that they need not all be in memory
// before they are reduced.
type Lister[T Object] interface {
	// ListEach passes the objects of a list to sink and returns the version they are consistent at. An error of sink
	// ends it.
	ListEach(ctx context.Context, sink Sink[T]) (version string, err error)
}

// Sink receives the objects of a Lister.
type Sink[T Object] interface {
	// Take receives an object that was Added, in any order, or a change to an earlier one.
	Take(Event[T]) error
	// Reset discards what was taken: the list starts over.
	Reset()
}

// Collect returns what a Lister lists, in key order.
func Collect[T Object](ctx context.Context, source Lister[T]) ([]T, string, error) {
	var c collector[T]
	version, err := source.ListEach(ctx, &c)
	if err != nil {
		return nil, "", err
	}
	return inKeyOrder(c.items), version, nil
}

// collector is a Sink that keeps what it takes.
type collector[T Object] struct{ items []T }

func (c *collector[T]) Reset() { c.items = nil }

// Take searches for the object of a change from the end; changes during a list are few.
func (c *collector[T]) Take(e Event[T]) error {
	switch e.Type {
	case Added:
		c.items = append(c.items, e.Object)
	case Modified, Deleted:
		k := keyOf(e.Object)
		for n, obj := range slices.Backward(c.items) {
			if keyOf(obj) != k {
				continue
			}
			if e.Type == Deleted {
				c.items = slices.Delete(c.items, n, n+1)
			} else {
				c.items[n] = e.Object
			}
			return nil
		}
		if e.Type == Modified {
			c.items = append(c.items, e.Object)
		}
	case Bookmark:
	}
	return nil
}

// Transform is Convert within a type: for example, it drops unused fields.
func Transform[T Object](source Source[T], f func(T) (T, error), failed func(T, error)) Source[T] {
	return Convert(source, f, failed)
}

// Metadata returns a Source of the metadata of another's objects, with which it shares memory.
func Metadata[T Object](source Source[T]) Source[*metav1.PartialObjectMetadata] {
	return Convert(source, func(obj T) (*metav1.PartialObjectMetadata, error) {
		return meta.AsPartialObjectMetadata(obj), nil
	}, nil)
}

// Convert returns a Source of the objects of another as converted by f. f must not change its argument unless source
// returns unshared objects, as package wire does and the registry does not. It must keep the key and the resource
// version, and may be called from several goroutines. Lists of a Lister pass through f one by one.
//
// If f fails on an object of a list, the list fails. An event on whose object it fails becomes a Bookmark: the change
// is lost, and failed, unless nil, is called.
func Convert[F, T Object](source Source[F], f func(F) (T, error), failed func(F, error)) Source[T] {
	if failed == nil {
		failed = func(F, error) {}
	}
	return &converted[F, T]{source: source, f: f, failed: failed}
}

type converted[F, T Object] struct {
	source Source[F]
	f      func(F) (T, error)
	failed func(F, error)
}

func (c *converted[F, T]) List(ctx context.Context) ([]T, string, error) {
	if _, ok := c.source.(Lister[F]); ok {
		return Collect(ctx, c)
	}
	items, version, err := c.source.List(ctx)
	if err != nil {
		return nil, "", err
	}
	out := make([]T, len(items))
	for n, obj := range items {
		if out[n], err = c.one(obj); err != nil {
			return nil, "", err
		}
	}
	return out, version, nil
}

// ListEach implements Lister.
func (c *converted[F, T]) ListEach(ctx context.Context, sink Sink[T]) (string, error) {
	into := convertedSink[F, T]{source: c, Sink: sink}
	if lister, ok := c.source.(Lister[F]); ok {
		return lister.ListEach(ctx, into)
	}
	items, version, err := c.source.List(ctx)
	if err != nil {
		return "", err
	}
	for _, obj := range items {
		if err := into.Take(Event[F]{Type: Added, Object: obj}); err != nil {
			return "", err
		}
	}
	return version, nil
}

type convertedSink[F, T Object] struct {
	source *converted[F, T]
	Sink[T]
}

func (s convertedSink[F, T]) Take(e Event[F]) error {
	made, err := s.source.one(e.Object)
	if err != nil {
		return err
	}
	return s.Sink.Take(Event[T]{Type: e.Type, Object: made, Version: e.Version})
}

func (c *converted[F, T]) one(obj F) (T, error) {
	made, err := c.f(obj)
	if err != nil {
		return made, fmt.Errorf("transform %s: %w", keyOf(obj).path(), err)
	}
	return made, nil
}

func (c *converted[F, T]) Watch(ctx context.Context, version string) (Stream[T], error) {
	stream, err := c.source.Watch(ctx, version)
	if err != nil {
		return nil, err
	}
	return &convertedStream[F, T]{stream: stream, source: c}, nil
}

type convertedStream[F, T Object] struct {
	stream Stream[F]
	source *converted[F, T]
}

func (s *convertedStream[F, T]) Next(ctx context.Context) ([]Event[T], error) {
	events, err := s.stream.Next(ctx)
	if err != nil {
		return nil, err
	}
	out := make([]Event[T], len(events))
	for n, e := range events {
		out[n] = Event[T]{Type: Bookmark, Version: e.Version}
		if e.Type == Bookmark {
			continue
		}
		made, err := s.source.one(e.Object)
		if err != nil {
			s.source.failed(e.Object, err)
			continue
		}
		out[n].Type, out[n].Object = e.Type, made
	}
	return out, nil
}

func (s *convertedStream[F, T]) Close() { s.stream.Close() }
