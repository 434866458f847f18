package memory

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/keelson-dev/keelson/informer"
)

// Options of a Store. The zero value is ready to use.
type Options struct {
	// History is how many changes are kept for watches to resume from; 0 means 1000.
	History int
}

// Store is an informer.Source over objects that Put and Delete change. Objects are shared:
// those it returns must not be changed.
type Store[T informer.Object] struct {
	limit int

	mu       sync.Mutex
	objects  map[string]T
	revision uint64
	// history holds the changes of the revisions trimmed+1 to revision.
	history []informer.Event[T]
	trimmed uint64
	// changed is closed and replaced at every change, to wake streams.
	changed chan struct{}
}

// New makes an empty store. Options after the first are ignored.
func New[T informer.Object](options ...Options) *Store[T] {
	limit := 1000
	if len(options) > 0 && options[0].History > 0 {
		limit = options[0].History
	}
	return &Store[T]{
		limit: limit, objects: map[string]T{},
		revision: 1, trimmed: 1, changed: make(chan struct{}),
	}
}

// path is the key of an object, in whose byte order lists are.
func path(namespace, name string) string {
	if namespace == "" {
		return name
	}
	return namespace + "/" + name
}

// Put stores a copy of obj under its namespace and name, in place of any existing object, and returns that copy, which
// differs only in its new resource version.
func (s *Store[T]) Put(obj T) T {
	obj = obj.DeepCopyObject().(T)
	s.mu.Lock()
	defer s.mu.Unlock()
	at := path(obj.GetNamespace(), obj.GetName())
	kind := informer.Added
	if _, exists := s.objects[at]; exists {
		kind = informer.Modified
	}
	s.objects[at] = obj
	s.commit(kind, obj)
	return obj
}

// Delete removes the object and returns its last state, under the resource version of the
// deletion, or false when there is none.
func (s *Store[T]) Delete(namespace, name string) (T, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := path(namespace, name)
	obj, exists := s.objects[at]
	if !exists {
		return obj, false
	}
	delete(s.objects, at)
	obj = obj.DeepCopyObject().(T)
	s.commit(informer.Deleted, obj)
	return obj, true
}

// Get returns the stored object.
func (s *Store[T]) Get(namespace, name string) (T, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	obj, exists := s.objects[path(namespace, name)]
	return obj, exists
}

// Trim discards the history: a watch that has not seen all of it expires.
func (s *Store[T]) Trim() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.history, s.trimmed = nil, s.revision
	s.announce()
}

// commit gives obj the next revision and records the change.
func (s *Store[T]) commit(kind informer.EventType, obj T) {
	s.revision++
	version := strconv.FormatUint(s.revision, 10)
	obj.SetResourceVersion(version)
	s.history = append(s.history, informer.Event[T]{Type: kind, Object: obj, Version: version})
	if over := len(s.history) - s.limit; over > 0 {
		clear(s.history[:over])
		s.history = s.history[over:]
		s.trimmed += uint64(over)
	}
	s.announce()
}

func (s *Store[T]) announce() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// List returns the objects in key order.
func (s *Store[T]) List(ctx context.Context) ([]T, string, error) {
	if err := ctx.Err(); err != nil {
		return nil, "", err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	keys := make([]string, 0, len(s.objects))
	for k := range s.objects {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, strings.Compare)
	items := make([]T, len(keys))
	for n, k := range keys {
		items[n] = s.objects[k]
	}
	return items, strconv.FormatUint(s.revision, 10), nil
}

// Watch streams the changes after version.
func (s *Store[T]) Watch(ctx context.Context, version string) (informer.Stream[T], error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	after, err := strconv.ParseUint(version, 10, 64)
	if err != nil {
		return nil, fmt.Errorf("resource version %q: %w", version, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if after > s.revision {
		return nil, fmt.Errorf("resource version %s is in the future, now is %d", version, s.revision)
	}
	if after < s.trimmed {
		return nil, informer.ErrExpired
	}
	return &stream[T]{store: s, after: after, closed: make(chan struct{})}, nil
}

// stream reads the shared history from its position.
type stream[T informer.Object] struct {
	store     *Store[T]
	after     uint64
	closeOnce sync.Once
	closed    chan struct{}
}

// Next implements informer.Stream. After Close it fails with io.EOF.
func (st *stream[T]) Next(ctx context.Context) ([]informer.Event[T], error) {
	for {
		select {
		case <-st.closed:
			return nil, io.EOF
		default:
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		events, changed, err := st.read()
		if err != nil || len(events) > 0 {
			return events, err
		}
		select {
		case <-changed:
		case <-st.closed:
		case <-ctx.Done():
		}
	}
}

// read returns the new changes, or the channel that is closed at the next one.
func (st *stream[T]) read() ([]informer.Event[T], <-chan struct{}, error) {
	s := st.store
	s.mu.Lock()
	defer s.mu.Unlock()
	if st.after < s.trimmed {
		return nil, nil, informer.ErrExpired
	}
	events := slices.Clone(s.history[st.after-s.trimmed:])
	st.after = s.revision
	return events, s.changed, nil
}

// Close implements informer.Stream.
func (st *stream[T]) Close() { st.closeOnce.Do(func() { close(st.closed) }) }
