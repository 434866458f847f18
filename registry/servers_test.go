package registry_test

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/storage"
	"github.com/keelson-dev/keelson/storage/memory"
)

// late is a store whose streams deliver nothing while it is held, as to a server that lags behind the others.
type late struct {
	*memory.Store
	mu   sync.Mutex
	gate chan struct{} // closed when open
}

func newLate(s *memory.Store) *late {
	l := &late{Store: s, gate: make(chan struct{})}
	close(l.gate)
	return l
}

func (l *late) hold() { l.mu.Lock(); defer l.mu.Unlock(); l.gate = make(chan struct{}) }

func (l *late) release() { l.mu.Lock(); defer l.mu.Unlock(); close(l.gate) }

func (l *late) Watch(ctx context.Context, prefix string, after int64) (storage.Stream, error) {
	s, err := l.Store.Watch(ctx, prefix, after)
	return lateStream{s, l}, err
}

type lateStream struct {
	storage.Stream
	store *late
}

func (s lateStream) Next(ctx context.Context) ([]storage.Event, error) {
	events, err := s.Stream.Next(ctx)
	s.store.mu.Lock()
	gate := s.store.gate
	s.store.mu.Unlock()
	select {
	case <-gate:
		return events, err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func config(name, value string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}, Data: map[string]string{"v": value}}
}

// set sets the object's value; version, unless empty, is the version that the client saw.
func set(value, version string) registry.Change {
	return func(_ context.Context, current registry.Object) (registry.Object, error) {
		cm := current.DeepCopyObject().(*corev1.ConfigMap)
		cm.Data = map[string]string{"v": value}
		cm.ResourceVersion = version
		return cm, nil
	}
}

// TestStaleServer: a server answers correctly even when its cache lags behind another server's writes.
func TestStaleServer(t *testing.T) {
	// Each is tried on a server that knows the object with value "old"; meanwhile it has become "new", at
	// version, and there is another object, "other".
	tests := map[string]func(ctx context.Context, res *registry.Resource, version string) error{
		"get": func(ctx context.Context, res *registry.Resource, _ string) error {
			return want(res.Get(ctx, "ns", "a", ""))("new")
		},
		"list": func(ctx context.Context, res *registry.Resource, _ string) error {
			l, err := res.List(ctx, registry.ListOptions{})
			if err == nil && len(l.Items) != 2 {
				return errors.New("an old list")
			}
			return err
		},
		"update of the new version": func(ctx context.Context, res *registry.Resource, version string) error {
			item, _, err := res.Update(ctx, "ns", "a", set("newer", version), registry.UpdateOptions{})
			return want(item, err)("newer")
		},
		"dry update of the new version": func(ctx context.Context, res *registry.Resource, version string) error {
			item, _, err := res.Update(ctx, "ns", "a", set("newer", version), registry.UpdateOptions{DryRun: true})
			return want(item, err)("newer")
		},
		"update to the old value": func(ctx context.Context, res *registry.Resource, _ string) error {
			if _, _, err := res.Update(ctx, "ns", "a", set("old", ""), registry.UpdateOptions{}); err != nil {
				return err
			}
			return want(res.Get(ctx, "ns", "a", ""))("old")
		},
		"a change that the old value does not allow": func(ctx context.Context, res *registry.Resource, _ string) error {
			item, _, err := res.Update(ctx, "ns", "a", func(ctx context.Context, current registry.Object) (registry.Object, error) {
				if current.(*corev1.ConfigMap).Data["v"] == "old" {
					return nil, errors.New("decided by an old value")
				}
				return set("newer", "")(ctx, current)
			}, registry.UpdateOptions{})
			return want(item, err)("newer")
		},
		"delete of the new version": func(ctx context.Context, res *registry.Resource, version string) error {
			o := registry.DeleteOptions{DeleteOptions: metav1.DeleteOptions{Preconditions: &metav1.Preconditions{ResourceVersion: &version}}}
			_, gone, err := res.Delete(ctx, "ns", "a", o)
			if err == nil && !gone {
				return errors.New("it stays")
			}
			return err
		},
		"dry create of an existing object": func(ctx context.Context, res *registry.Resource, _ string) error {
			if _, err := res.Create(ctx, config("other", ""), registry.CreateOptions{DryRun: true}); !errors.Is(err, registry.ErrExists) {
				return errors.New("it seems not to be there")
			}
			return nil
		},
		"update of an object that only the other server knows": func(ctx context.Context, res *registry.Resource, _ string) error {
			item, created, err := res.Update(ctx, "ns", "other", set("newer", ""), registry.UpdateOptions{})
			if created {
				return errors.New("it was created")
			}
			return want(item, err)("newer")
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) { synctest.Test(t, func(t *testing.T) { testStaleServer(t, test) }) })
	}
}

func want(item *registry.Item, err error) func(string) error {
	return func(value string) error {
		if err == nil && item.Object.(*corev1.ConfigMap).Data["v"] != value {
			return errors.New("the value is " + item.Object.(*corev1.ConfigMap).Data["v"])
		}
		return err
	}
}

func testStaleServer(t *testing.T, test func(context.Context, *registry.Resource, string) error) {
	store := memory.New(memory.Options{})
	far := newLate(store)
	here, there := open(t, store, registry.Options{}), open(t, far, registry.Options{})
	ctx := t.Context()
	if _, err := here.Create(ctx, config("a", "old"), registry.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := want(there.Get(ctx, "ns", "a", ""))("old"); err != nil {
		t.Fatal(err)
	}
	far.hold()
	item, _, err := here.Update(ctx, "ns", "a", set("new", ""), registry.UpdateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := here.Create(ctx, config("other", ""), registry.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- test(ctx, there, item.Object.GetResourceVersion()) }()
	synctest.Wait()
	far.release()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// TestRestartKeepsHistory: a restarted registry delivers earlier changes, as far back as the store does.
func TestRestartKeepsHistory(t *testing.T) {
	store := memory.New(memory.Options{})
	first := open(t, store, registry.Options{})
	a, err := first.Create(t.Context(), config("a", "1"), registry.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := first.Update(t.Context(), "ns", "a", set("2", ""), registry.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, _, err := first.Delete(t.Context(), "ns", "a", registry.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	second := open(t, store, registry.Options{})
	w, err := second.Watch(t.Context(), registry.Selection{}, a.Revision)
	if err != nil {
		t.Fatal(err)
	}
	events, err := w.Next(t.Context())
	if err != nil || len(events) != 2 || events[0].Type != informer.Modified || events[1].Type != informer.Deleted {
		t.Errorf("events %v, %v", events, err)
	}
	l, err := second.List(t.Context(), registry.ListOptions{ResourceVersion: strconv.FormatInt(a.Revision, 10), Match: metav1.ResourceVersionMatchExact})
	if err != nil || len(l.Items) != 1 || want(l.Items[0], nil)("1") != nil {
		t.Errorf("the state before the restart: %v, %v", l, err)
	}
	short := open(t, store, registry.Options{History: 1})
	if _, err := short.Watch(t.Context(), registry.Selection{}, a.Revision); !errors.Is(err, registry.ErrExpired) {
		t.Errorf("a registry with a short history: %v", err)
	}
}

// lessor records the times to live of all writes.
type lessor struct {
	*memory.Store
	mu   sync.Mutex
	ttls []time.Duration
}

func (l *lessor) note(ttl time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ttls = append(l.ttls, ttl)
}

func (l *lessor) CreateFor(ctx context.Context, key string, value []byte, ttl time.Duration) (int64, error) {
	l.note(ttl)
	return l.Create(ctx, key, value)
}

func (l *lessor) UpdateFor(ctx context.Context, key string, value []byte, expected int64, ttl time.Duration) (int64, error) {
	l.note(-ttl)
	return l.Update(ctx, key, value, expected)
}

// TestLessor: a store that expires records itself gets the objects' time to live at every write.
func TestLessor(t *testing.T) {
	for _, ttl := range []time.Duration{0, time.Hour} {
		store := &lessor{Store: memory.New(memory.Options{})}
		kind := configMaps()
		kind.TTL = ttl
		res := openKind(t, store, kind, registry.Options{})
		if _, err := res.Create(t.Context(), config("a", "1"), registry.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		if _, _, err := res.Update(t.Context(), "ns", "a", set("2", ""), registry.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		switch {
		case ttl == 0 && len(store.ttls) != 0, ttl != 0 && (len(store.ttls) != 2 || store.ttls[0] != ttl || store.ttls[1] != -ttl):
			t.Errorf("objects that live for %v: %v", ttl, store.ttls)
		}
	}
}

// TestExpiry: an object with a time to live is deleted that long after its last write.
func TestExpiry(t *testing.T) { synctest.Test(t, testExpiry) }

func testExpiry(t *testing.T) {
	kind := configMaps()
	kind.TTL = time.Hour
	res := openKind(t, memory.New(memory.Options{}), kind, registry.Options{})
	for _, name := range []string{"left", "touched"} {
		if _, err := res.Create(t.Context(), config(name, "1"), registry.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	time.Sleep(30 * time.Minute)
	touch := func(_ context.Context, current registry.Object) (registry.Object, error) {
		obj := current.DeepCopyObject().(registry.Object)
		now := metav1.Now()
		obj.SetManagedFields([]metav1.ManagedFieldsEntry{{Manager: "m", Operation: metav1.ManagedFieldsOperationUpdate, Time: &now}})
		return obj, nil
	}
	if _, _, err := res.Update(t.Context(), "ns", "touched", touch, registry.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		after time.Duration
		want  int
	}{{29 * time.Minute, 2}, {3 * time.Minute, 1}, {27 * time.Minute, 1}, {3 * time.Minute, 0}} {
		time.Sleep(step.after)
		if n := res.Len(); n != step.want {
			t.Errorf("after %v more there are %d, want %d", step.after, n, step.want)
		}
	}
}

// foreign is a store to which another client writes, many keys at a time.
type foreign struct {
	*memory.Store
	events chan []storage.Event
}

func (f foreign) Watch(context.Context, string, int64) (storage.Stream, error) {
	return foreignStream(f), nil
}

type foreignStream foreign

func (f foreignStream) Next(ctx context.Context) ([]storage.Event, error) {
	select {
	case events := <-f.events:
		return events, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (f foreignStream) Close() {}

// TestOneRevision: a reader sees all changes of one revision, or none of them.
func TestOneRevision(t *testing.T) {
	store := foreign{memory.New(memory.Options{}), make(chan []storage.Event)}
	res := open(t, store, registry.Options{})
	const rounds, each = 100, 50
	done := make(chan struct{})
	go func() {
		defer close(done)
		for round := range rounds {
			var events []storage.Event
			for n := range each {
				name := strconv.Itoa(round) + "-" + strconv.Itoa(n)
				value := []byte(`{"kind":"ConfigMap","apiVersion":"v1","metadata":{"namespace":"ns","name":"` + name + `"}}`)
				events = append(events, storage.Event{Type: storage.Put, Key: "/registry/configmaps/ns/" + name, Value: value, Revision: int64(round) + 10})
			}
			store.events <- events
		}
		store.events <- []storage.Event{{Type: storage.Progress, Revision: rounds + 10}}
	}()
	for ended := false; !ended; {
		select {
		case <-done:
			ended = true
		default:
		}
		l, err := res.List(t.Context(), registry.ListOptions{ResourceVersion: "0"})
		if err != nil || len(l.Items)%each != 0 {
			t.Fatalf("%d objects at %d, %v", len(l.Items), l.Revision, err)
		}
	}
	if res.Len() != rounds*each {
		t.Errorf("%d objects", res.Len())
	}
}

// cutOff is a store whose streams can be made to fall behind its history.
type cutOff struct {
	*memory.Store
	mu  sync.Mutex
	cut chan struct{}
}

func (c *cutOff) fallBehind() {
	c.mu.Lock()
	defer c.mu.Unlock()
	close(c.cut)
	c.cut = make(chan struct{})
}

func (c *cutOff) Watch(ctx context.Context, prefix string, after int64) (storage.Stream, error) {
	s, err := c.Store.Watch(ctx, prefix, after)
	c.mu.Lock()
	defer c.mu.Unlock()
	return cutOffStream{s, c.cut}, err
}

type cutOffStream struct {
	storage.Stream
	cut chan struct{}
}

func (s cutOffStream) Next(ctx context.Context) ([]storage.Event, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	done := make(chan struct{})
	defer func() { <-done }()
	go func() {
		defer close(done)
		select {
		case <-s.cut:
			cancel()
		case <-ctx.Done():
		}
	}()
	events, err := s.Stream.Next(ctx)
	cancel()
	select {
	case <-s.cut:
		return nil, storage.ErrCompacted
	default:
		return events, err
	}
}

// TestFallsBehind: a registry that fell behind its store reads it again; watches end with an error, lists are
// right.
func TestFallsBehind(t *testing.T) {
	inner := memory.New(memory.Options{})
	store := &cutOff{Store: inner, cut: make(chan struct{})}
	res, other := open(t, store, registry.Options{}), open(t, inner, registry.Options{})
	ctx := t.Context()
	front := registry.Selection{Labels: labels.SelectorFromSet(labels.Set{"tier": "front"})}
	put := func(res *registry.Resource, name string) int64 {
		t.Helper()
		cm := config(name, "1")
		cm.Labels = map[string]string{"tier": "front"}
		item, err := res.Create(ctx, cm, registry.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return item.Revision
	}
	for round := range 20 {
		var watches []*registry.Watch
		for _, s := range []registry.Selection{{}, {Namespace: "ns"}, front} {
			l, w, err := res.ListAndWatch(ctx, s, "")
			if err != nil || len(l.Items) != 2*round {
				t.Fatalf("round %d: %v, %v", round, l, err)
			}
			watches = append(watches, w)
		}
		ended := make(chan error, len(watches))
		before := put(res, "a"+strconv.Itoa(round))
		for _, w := range watches {
			go func() {
				var err error
				for err == nil {
					_, err = w.Next(ctx)
				}
				ended <- err
			}()
		}
		store.fallBehind()
		put(other, "b"+strconv.Itoa(round))
		for range watches {
			if err := <-ended; !errors.Is(err, registry.ErrExpired) {
				t.Errorf("a watch ended with %v", err)
			}
		}
		if l, err := res.List(ctx, registry.ListOptions{}); err != nil || len(l.Items) != 2*round+2 {
			t.Errorf("round %d: %v, %v", round, l, err)
		}
		if _, err := res.Watch(ctx, registry.Selection{}, before-1); !errors.Is(err, registry.ErrExpired) {
			t.Errorf("a watch from before: %v", err)
		}
	}
}

// watched counts the reads of a store.
type watched struct {
	*memory.Store
	reads, revisions atomic.Int64
}

func (c *watched) Get(ctx context.Context, key string) (storage.Record, error) {
	c.reads.Add(1)
	return c.Store.Get(ctx, key)
}

func (c *watched) List(ctx context.Context, prefix string, o storage.ListOptions) (storage.Page, error) {
	c.reads.Add(1)
	return c.Store.List(ctx, prefix, o)
}

func (c *watched) Revision(ctx context.Context) (int64, error) {
	c.revisions.Add(1)
	return c.Store.Revision(ctx)
}

// TestConsistentReads: consistent reads ask the store for its revision but do not list it again, though another
// server writes. Objects are decoded once.
func TestConsistentReads(t *testing.T) {
	inner := memory.New(memory.Options{})
	store := &watched{Store: inner}
	var decoded atomic.Int64
	kind := configMaps()
	kind.Rules.Restore = func(registry.Object) { decoded.Add(1) } // runs whenever a stored object is decoded
	other := open(t, inner, registry.Options{})
	const n = 50
	for i := range n {
		if _, err := other.Create(t.Context(), config("a"+strconv.Itoa(i), "1"), registry.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	res := openKind(t, store, kind, registry.Options{})
	store.reads.Store(0)
	store.revisions.Store(0)
	for i := range n {
		if _, _, err := other.Update(t.Context(), "ns", "a0", set(strconv.Itoa(i+2), ""), registry.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		l, err := res.List(t.Context(), registry.ListOptions{})
		if err != nil || len(l.Items) != n || want(l.Items[0], nil)(strconv.Itoa(i+2)) != nil {
			t.Fatalf("after %d changes: %v, %v", i+1, l, err)
		}
		if err := want(res.Get(t.Context(), "ns", "a0", ""))(strconv.Itoa(i + 2)); err != nil {
			t.Fatal(err)
		}
	}
	if store.reads.Load() != 0 || store.revisions.Load() == 0 {
		t.Errorf("%d reads of the store, asked for its revision %d times", store.reads.Load(), store.revisions.Load())
	}
	if got := decoded.Load(); got != 2*n {
		t.Errorf("%d states were decoded %d times", 2*n, got)
	}
}
