package clientgo

import (
	"context"

	"github.com/keelson-dev/keelson/informer"
)

// erase makes a source of objects of any type, so that a transform can change the type.
func erase[T informer.Object](source informer.Source[T]) informer.Source[informer.Object] {
	if same, ok := any(source).(informer.Source[informer.Object]); ok {
		return same
	}
	if lister, ok := source.(informer.Lister[T]); ok {
		return erasedLister[T]{erased[T]{source}, lister}
	}
	return erased[T]{source}
}

type erased[T informer.Object] struct{ source informer.Source[T] }

func (s erased[T]) List(ctx context.Context) ([]informer.Object, string, error) {
	items, version, err := s.source.List(ctx)
	out := make([]informer.Object, len(items))
	for n, obj := range items {
		out[n] = obj
	}
	return out, version, err
}

func (s erased[T]) Watch(ctx context.Context, version string) (informer.Stream[informer.Object], error) {
	stream, err := s.source.Watch(ctx, version)
	if err != nil {
		return nil, err
	}
	return erasedStream[T]{stream}, nil
}

type erasedLister[T informer.Object] struct {
	erased[T]
	lister informer.Lister[T]
}

func (s erasedLister[T]) ListEach(ctx context.Context, each func(informer.Object) error) (string, error) {
	return s.lister.ListEach(ctx, func(obj T) error { return each(obj) })
}

type erasedStream[T informer.Object] struct{ stream informer.Stream[T] }

func (s erasedStream[T]) Next(ctx context.Context) ([]informer.Event[informer.Object], error) {
	events, err := s.stream.Next(ctx)
	if err != nil {
		return nil, err
	}
	out := make([]informer.Event[informer.Object], len(events))
	for n, e := range events {
		out[n] = informer.Event[informer.Object]{Type: e.Type, Version: e.Version}
		if e.Type != informer.Bookmark {
			out[n].Object = e.Object
		}
	}
	return out, nil
}

func (s erasedStream[T]) Close() { s.stream.Close() }
