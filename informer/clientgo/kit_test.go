package clientgo_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/informer/clientgo"
	"github.com/keelson-dev/keelson/informer/memory"
)

type object = *corev1.ConfigMap

func configMap(name, value string) object {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: "1"},
		Data:       map[string]string{"k": value},
	}
}

// source is a store whose lists fail on demand, and whose watches can be ended and sent bookmarks.
type source struct {
	*memory.Store[object]

	broken sync.RWMutex // held while the watches are broken and nothing can be read

	mu        sync.Mutex
	failures  []error
	ended     chan struct{}
	reason    error
	bookmarks chan string
}

func newSource() *source {
	return &source{Store: memory.New[object](), ended: make(chan struct{}), bookmarks: make(chan string)}
}

func (s *source) List(ctx context.Context) ([]object, string, error) {
	s.broken.RLock()
	defer s.broken.RUnlock()
	s.mu.Lock()
	var err error
	if len(s.failures) > 0 {
		err, s.failures = s.failures[0], s.failures[1:]
	}
	s.mu.Unlock()
	if err != nil {
		return nil, "", err
	}
	return s.Store.List(ctx)
}

func (s *source) Watch(ctx context.Context, version string) (informer.Stream[object], error) {
	s.broken.RLock()
	defer s.broken.RUnlock()
	inner, err := s.Store.Watch(ctx, version)
	s.mu.Lock()
	defer s.mu.Unlock()
	return &stream{Stream: inner, source: s, ended: s.ended}, err
}

// breakWatches ends the current watches, which see nothing of change, as whoever lists or watches again sees all of it.
func (s *source) breakWatches(reason error, change func()) {
	s.broken.Lock()
	defer s.broken.Unlock()
	s.mu.Lock()
	s.reason = reason
	close(s.ended)
	s.ended = make(chan struct{})
	s.mu.Unlock()
	change()
}

// over is why the stream has ended, if it has.
func (s *stream) over() error {
	select {
	case <-s.ended:
		s.source.mu.Lock()
		defer s.source.mu.Unlock()
		return s.source.reason
	default:
		return nil
	}
}

type stream struct {
	informer.Stream[object]
	source *source
	ended  chan struct{}
}

func (s *stream) Next(ctx context.Context) ([]informer.Event[object], error) {
	inner, cancel := context.WithCancel(ctx)
	defer cancel()
	type result struct {
		events []informer.Event[object]
		err    error
	}
	done := make(chan result, 1)
	go func() {
		events, err := s.Stream.Next(inner)
		done <- result{events, err}
	}()
	select {
	case r := <-done:
		if err := s.over(); err != nil {
			return nil, err
		}
		return r.events, r.err
	case version := <-s.source.bookmarks:
		cancel()
		r := <-done
		return append(r.events, informer.Event[object]{Type: informer.Bookmark, Version: version}), nil
	case <-s.ended:
		cancel()
		<-done
		return nil, s.over()
	}
}

// listWatch is a source for client-go's informer.
type listWatch struct{ *source }

func (l listWatch) IsWatchListSemanticsUnSupported() bool { return true }

func (l listWatch) List(options metav1.ListOptions) (runtime.Object, error) {
	return l.ListWithContext(context.Background(), options)
}

func (l listWatch) Watch(options metav1.ListOptions) (watch.Interface, error) {
	return l.WatchWithContext(context.Background(), options)
}

func (l listWatch) ListWithContext(ctx context.Context, _ metav1.ListOptions) (runtime.Object, error) {
	items, version, err := l.source.List(ctx)
	if err != nil {
		return nil, err
	}
	list := &corev1.ConfigMapList{ListMeta: metav1.ListMeta{ResourceVersion: version}}
	for _, o := range items {
		list.Items = append(list.Items, *o.DeepCopy())
	}
	return list, nil
}

func (l listWatch) WatchWithContext(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	ctx, cancel := context.WithCancel(ctx)
	s, err := l.source.Watch(ctx, options.ResourceVersion)
	if err != nil {
		cancel()
		return nil, answer(err)
	}
	out := make(chan watch.Event)
	w := &watching{out: out, cancel: cancel}
	go func() {
		defer close(out)
		defer s.Close()
		for {
			events, err := s.Next(ctx)
			if err != nil && !errors.Is(err, io.EOF) && ctx.Err() == nil {
				status := apierrors.NewInternalError(err).Status()
				if known := apierrors.APIStatus(nil); errors.As(answer(err), &known) {
					status = known.Status()
				}
				select {
				case out <- watch.Event{Type: watch.Error, Object: &status}:
				case <-ctx.Done():
				}
			}
			if err != nil {
				return
			}
			for _, e := range events {
				o := e.Object.DeepCopy()
				if e.Type == informer.Bookmark {
					o = &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{ResourceVersion: e.Version}}
				}
				select {
				case out <- watch.Event{Type: watch.EventType(e.Type), Object: o}:
				case <-ctx.Done():
					return
				}
			}
		}
	}()
	return w, nil
}

func answer(err error) error {
	if errors.Is(err, informer.ErrExpired) {
		return apierrors.NewResourceExpired("too old resource version")
	}
	return err
}

type watching struct {
	out    chan watch.Event
	cancel context.CancelFunc
}

func (w *watching) Stop()                          { w.cancel() }
func (w *watching) ResultChan() <-chan watch.Event { return w.out }

// world is a running informer and the record of its events.
type world struct {
	*testing.T
	*source
	informer cache.SharedIndexInformer
	stop     func()

	mu    sync.Mutex
	lines map[string][]string // by handler
	out   []string
}

// implementations are the informers to compare.
func implementations() map[string]func(*source, time.Duration, cache.Indexers) cache.SharedIndexInformer {
	return map[string]func(*source, time.Duration, cache.Indexers) cache.SharedIndexInformer{
		"client-go": func(s *source, resync time.Duration, indexers cache.Indexers) cache.SharedIndexInformer {
			return cache.NewSharedIndexInformer(listWatch{s}, &corev1.ConfigMap{}, resync, indexers)
		},
		"keelson": func(s *source, resync time.Duration, indexers cache.Indexers) cache.SharedIndexInformer {
			return clientgo.New(s, clientgo.Options{ResyncPeriod: resync, Indexers: indexers})
		},
	}
}

// note records a line.
func (w *world) note(who, format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lines[who] = append(w.lines[who], who+": "+fmt.Sprintf(format, args...))
}

// say describes an object.
func say(obj any) string {
	switch o := obj.(type) {
	case object:
		return fmt.Sprintf("%s/%s=%s@%s uid %s", o.Namespace, o.Name, o.Data["k"], o.ResourceVersion, o.UID)
	case cache.DeletedFinalStateUnknown:
		return "tombstone " + o.Key + " of " + say(o.Obj)
	case nil:
		return "nothing"
	}
	m, err := meta.Accessor(obj)
	if err != nil {
		return fmt.Sprintf("%T", obj)
	}
	return fmt.Sprintf("%T %s@%s", obj, m.GetName(), m.GetResourceVersion())
}

// handler records its calls, after running first.
func (w *world) handler(name string, first func()) cache.ResourceEventHandler {
	return cache.ResourceEventHandlerDetailedFuncs{
		AddFunc: func(obj any, initial bool) {
			first()
			w.note(name, "add %s initial %v", say(obj), initial)
		},
		UpdateFunc: func(old, obj any) {
			first()
			w.note(name, "update %s to %s", say(old), say(obj))
		},
		DeleteFunc: func(obj any) {
			first()
			w.note(name, "delete %s", say(obj))
		},
	}
}

func nothing() {}

// listen registers a recording handler.
func (w *world) listen(name string, options ...cache.HandlerOptions) cache.ResourceEventHandlerRegistration {
	w.Helper()
	registration, err := w.informer.AddEventHandlerWithOptions(w.handler(name, nothing), append(options, cache.HandlerOptions{})[0])
	if err != nil {
		w.Fatal(err)
	}
	return registration
}

// start runs the informer.
func (w *world) start() {
	ctx, cancel := context.WithCancel(w.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.informer.RunWithContext(ctx)
	}()
	var once sync.Once
	w.stop = func() { once.Do(func() { cancel(); <-done }) }
	w.Cleanup(func() { w.stop() })
}

// step runs do, lets an hour pass, and records the handlers' calls meanwhile.
func (w *world) step(name string, do func()) { w.ended(name, do, time.Hour, false) }

// anyhow is step where client-go does not order the objects.
func (w *world) anyhow(name string, do func()) { w.ended(name, do, time.Hour, true) }

func (w *world) ended(name string, do func(), wait time.Duration, unordered bool) {
	do()
	time.Sleep(wait)
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.out = append(w.out, "== "+name)
	var who []string
	for name, lines := range w.lines {
		who = append(who, name)
		if unordered {
			slices.Sort(lines)
		}
	}
	slices.Sort(who)
	for _, name := range who {
		w.out = append(w.out, w.lines[name]...)
	}
	clear(w.lines)
}

// difference is an intended difference: lines that only one of the two has.
type difference struct{ client, keelson []string }

// play plays a scenario with both informers and compares their records.
func play(t *testing.T, resync time.Duration, indexers cache.Indexers, intended difference, scenario func(*world)) {
	t.Helper()
	said := map[string][]string{}
	for name, build := range implementations() {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := &world{T: t, source: newSource(), lines: map[string][]string{}}
				mine := cache.Indexers{} // client-go adds to the map it is given
				for name, f := range indexers {
					mine[name] = f
				}
				w.informer = build(w.source, resync, mine)
				scenario(w)
				if w.stop != nil {
					w.stop()
				}
				said[name] = w.out
			})
		})
	}
	compare(t, said, intended)
}

// compare finds unintended differences.
func compare(t *testing.T, said map[string][]string, intended difference) {
	t.Helper()
	ours, theirs := said["keelson"], said["client-go"]
	ours, theirs = without(t, ours, intended.keelson), without(t, theirs, intended.client)
	if reflect.DeepEqual(ours, theirs) {
		return
	}
	for n := range max(len(ours), len(theirs)) {
		a, b := at(theirs, n), at(ours, n)
		if a != b {
			t.Errorf("line %d\n client-go %s\n keelson   %s", n, a, b)
			return
		}
	}
}

func at(lines []string, n int) string {
	if n < len(lines) {
		return lines[n]
	}
	return "(ended)"
}

// without removes the lines, all of which must be there.
func without(t *testing.T, lines, out []string) []string {
	t.Helper()
	lines = slices.Clone(lines)
	for _, line := range out {
		n := slices.Index(lines, line)
		if n < 0 {
			t.Errorf("an intended difference is not there: %s", line)
			continue
		}
		lines = slices.Delete(lines, n, n+1)
	}
	return lines
}

func again(name, value string) object {
	o := configMap(name, value)
	o.UID = types.UID("another")
	return o
}
