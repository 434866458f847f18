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
	// settle is how long to wait after a notification: there are usually several at once.
	settle = 10 * time.Millisecond
	// pollInterval is how often a directory without notifications is read.
	pollInterval = time.Second
)

// Watch streams changes of the directory since the version at which it was last read.
func (d *Directory) Watch(ctx context.Context, version string) (informer.Stream[*corev1.Pod], error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s := &stream{directory: d, closed: make(chan struct{})}
	s.follow() // before the state is compared, so that no change is missed
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
	watcher   *fsnotify.Watcher // nil without notifications, or before they start
	seen      map[string]*corev1.Pod
	version   string
	looked    bool

	once   sync.Once
	closed chan struct{}
}

// follow subscribes to notifications of the file system. Without them, the directory is read more often, and follow is
// tried again.
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

// watched is the path to watch: a file is more often replaced than changed, and only its directory reports that.
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
			_ = s.watcher.Close() // nothing is lost
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
		s.looked = true // at first there may already be changes
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
		period = min(period, pollInterval)
	}
	timer := time.NewTimer(period)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-s.closed:
		return io.EOF
	case err := <-failures: // notifications were lost, which counts as one
		s.directory.options.Logger.Debug("watching static pods' manifests failed", "error", err)
	case <-timer.C:
		if s.watcher == nil {
			s.follow()
		}
		return nil
	case <-signs:
	}
	return s.debounce(ctx, signs)
}

// debounce drains notifications in quick succession.
func (s *stream) debounce(ctx context.Context, signs <-chan fsnotify.Event) error {
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

// renew watches the directory anew if it was replaced by another of the same name, which the old watch does not see.
func (s *stream) renew() {
	if len(s.watcher.WatchList()) > 0 {
		return
	}
	_ = s.watcher.Close() // it watches nothing any more
	s.watcher = nil
	s.follow()
}

// difference returns the events between two states: first deletions, then additions and changes, each in order.
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
