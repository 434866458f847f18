package fakeapi

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sort"
	"strconv"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-dev/keelson/informer"
)

// Feed is the informer.Source of one resource of a Server. It hands out the stored objects
// themselves, and its watches can be held back, which makes the caches behind it stale.
type Feed[T informer.Object] struct {
	server   *Server
	resource schema.GroupVersionResource

	mu      sync.Mutex
	held    bool
	release chan struct{} // closed by Resume
}

// Source returns the feed of a resource, whose kind must be T.
func Source[T informer.Object](s *Server, resource schema.GroupVersionResource) *Feed[T] {
	return &Feed[T]{server: s, resource: resource, release: make(chan struct{})}
}

// Hold keeps changes from the watches until Resume.
func (f *Feed[T]) Hold() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.held {
		f.held, f.release = true, make(chan struct{})
	}
}

// Resume lets the changes through that were held back.
func (f *Feed[T]) Resume() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.held {
		f.held = false
		close(f.release)
	}
}

// List implements informer.Source.
func (f *Feed[T]) List(context.Context) ([]T, string, error) {
	f.server.mu.Lock()
	defer f.server.mu.Unlock()
	objects := f.server.objects[f.resource]
	var out []T
	for _, key := range slices.Sorted(maps.Keys(objects)) {
		obj, ok := objects[key].shared.(T)
		if !ok {
			return nil, "", fmt.Errorf("%s holds %T", f.resource.Resource, objects[key].shared)
		}
		out = append(out, obj)
	}
	return out, strconv.FormatInt(f.server.revision, 10), nil
}

// Watch implements informer.Source.
func (f *Feed[T]) Watch(_ context.Context, version string) (informer.Stream[T], error) {
	after, err := strconv.ParseInt(version, 10, 64)
	if err != nil {
		return nil, fmt.Errorf("resource version %q: %w", version, err)
	}
	return &stream[T]{feed: f, after: after}, nil
}

type stream[T informer.Object] struct {
	feed  *Feed[T]
	after int64
}

// Next implements informer.Stream.
func (s *stream[T]) Next(ctx context.Context) ([]informer.Event[T], error) {
	for {
		wait, events := s.poll()
		if len(events) > 0 {
			return events, nil
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-wait:
		}
	}
}

// poll returns the changes after the last one returned, or a channel that is closed when it is
// worth looking again.
func (s *stream[T]) poll() (<-chan struct{}, []informer.Event[T]) {
	s.feed.mu.Lock()
	held, release := s.feed.held, s.feed.release
	s.feed.mu.Unlock()
	if held {
		return release, nil
	}
	server := s.feed.server
	server.mu.Lock()
	defer server.mu.Unlock()
	all := server.events[s.feed.resource]
	first := sort.Search(len(all), func(i int) bool { return all[i].version > s.after })
	var events []informer.Event[T]
	for _, c := range all[first:] {
		events = append(events, informer.Event[T]{Type: c.kind, Object: c.object.(T), Version: strconv.FormatInt(c.version, 10)})
	}
	if len(events) > 0 {
		s.after, _ = strconv.ParseInt(events[len(events)-1].Version, 10, 64)
	}
	return server.changed, events
}

// Close implements informer.Stream.
func (s *stream[T]) Close() {}
