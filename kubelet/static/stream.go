package static

import (
	"context"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/fsnotify/fsnotify"
	corev1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/informer"
)

const (
	// settle is how long a directory is left alone after a sign of change: there are usually
	// several of them.
	settle = 10 * time.Millisecond
	// hurried is how often it is looked at that gives no signs.
	hurried = time.Second
)

// Watch streams changes of the directory from the version that it was last read at.
func (d *Directory) Watch(ctx context.Context, version string) (informer.Stream[*corev1.Pod], error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s := &stream{directory: d, closed: make(chan struct{})}
	s.follow() // before the state is compared, so that nothing happens in between
	d.mu.Lock()
	defer d.mu.Unlock()
	if version != d.version() {
		s.Close()
		return nil, informer.ErrExpired
	}
	s.seen, s.version = d.pods, version
	return s, nil
}

// stream is one reader of a directory's changes.
type stream struct {
	directory *Directory
	watcher   *fsnotify.Watcher // nil where the file system gives no signs, or not yet
	seen      map[string]*corev1.Pod
	version   string
	looked    bool

	once   sync.Once
	closed chan struct{}
}

// follow asks the file system for signs of change. Without them the directory is looked at more
// often, and they are asked for again.
func (s *stream) follow() {
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		return
	}
	if err := watcher.Add(watched(s.directory.path)); err != nil {
		_ = watcher.Close()
		return
	}
	s.watcher = watcher
}

// watched is what to follow: a file is replaced more often than changed, which only its directory
// tells.
func watched(path string) string {
	if isRegular(path) {
		return filepath.Dir(path)
	}
	return path
}

// Close implements informer.Stream.
func (s *stream) Close() {
	s.once.Do(func() {
		close(s.closed)
		if s.watcher != nil {
			_ = s.watcher.Close() // nothing is lost with it
		}
	})
}

// Next implements informer.Stream.
func (s *stream) Next(ctx context.Context) ([]informer.Event[*corev1.Pod], error) {
	for {
		if s.looked {
			if err := s.wait(ctx); err != nil {
				return nil, err
			}
		}
		s.looked = true // the first time there may be something already
		pods, version, err := s.directory.look()
		if err != nil {
			return nil, err
		}
		events := difference(s.seen, pods, version)
		s.seen, s.version = pods, version
		if len(events) > 0 {
			return events, nil
		}
	}
}

// wait returns when the directory may have changed.
func (s *stream) wait(ctx context.Context) error {
	period := s.directory.options.Period
	var signs <-chan fsnotify.Event
	var failures <-chan error
	if s.watcher != nil {
		signs, failures = s.watcher.Events, s.watcher.Errors
	} else {
		period = min(period, hurried)
	}
	timer := time.NewTimer(period)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-s.closed:
		return io.EOF
	case err := <-failures: // signs were lost, which is one
		s.directory.options.Logger.Debug("following static pods' manifests failed", "error", err)
	case <-timer.C:
		if s.watcher == nil {
			s.follow()
		}
		return nil
	case <-signs:
	}
	return s.calm(ctx, signs)
}

// calm takes the signs that come right after one another.
func (s *stream) calm(ctx context.Context, signs <-chan fsnotify.Event) error {
	timer := time.NewTimer(settle)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-s.closed:
			return io.EOF
		case <-signs:
		case <-timer.C:
			s.renew()
			return nil
		}
	}
}

// renew follows the directory anew when it was replaced by another of the same name, of which the
// old watch sees nothing.
func (s *stream) renew() {
	if len(s.watcher.WatchList()) > 0 {
		return
	}
	_ = s.watcher.Close() // it follows nothing any more
	s.watcher = nil
	s.follow()
}

// difference is what has happened between two states: first what is gone, then what is new or
// different, each in order.
func difference(before, after map[string]*corev1.Pod, version string) []informer.Event[*corev1.Pod] {
	var events []informer.Event[*corev1.Pod]
	for _, key := range slices.Sorted(maps.Keys(before)) {
		if _, ok := after[key]; !ok {
			events = append(events, informer.Event[*corev1.Pod]{Type: informer.Deleted, Object: before[key], Version: version})
		}
	}
	for _, key := range slices.Sorted(maps.Keys(after)) {
		old, ok := before[key]
		switch {
		case !ok:
			events = append(events, informer.Event[*corev1.Pod]{Type: informer.Added, Object: after[key], Version: version})
		case old != after[key]:
			events = append(events, informer.Event[*corev1.Pod]{Type: informer.Modified, Object: after[key], Version: version})
		}
	}
	return events
}
