package registry_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/storage"
	"github.com/keelson-dev/keelson/storage/memory"
)

// blind fails to read the values whose key holds "blind", while it is on.
type blind struct {
	*memory.Store
	mu   sync.Mutex
	sees bool
}

func (b *blind) err(key string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.sees || !strings.Contains(key, "blind") {
		return nil
	}
	return fmt.Errorf("%w: no key for it", storage.ErrUnreadable)
}

func (b *blind) see() { b.mu.Lock(); defer b.mu.Unlock(); b.sees = true }

func (b *blind) List(ctx context.Context, prefix string, o storage.ListOptions) (storage.Page, error) {
	page, err := b.Store.List(ctx, prefix, o)
	for i := range page.Records {
		if bad := b.err(page.Records[i].Key); bad != nil {
			page.Records[i].Value, page.Records[i].Err = nil, bad
		}
	}
	return page, err
}

func (b *blind) Watch(ctx context.Context, prefix string, after int64) (storage.Stream, error) {
	s, err := b.Store.Watch(ctx, prefix, after)
	return blindStream{s, b}, err
}

type blindStream struct {
	storage.Stream
	store *blind
}

func (s blindStream) Next(ctx context.Context) ([]storage.Event, error) {
	events, err := s.Stream.Next(ctx)
	for i := range events {
		if bad := s.store.err(events[i].Key); bad != nil && events[i].Type == storage.Put {
			events[i].Value, events[i].Err = nil, bad
		}
	}
	return events, err
}

// TestUnreadable: unreadable records, found at the start or later, are errors of their own.
func TestUnreadable(t *testing.T) {
	for _, found := range []string{"at start", "at start, without a history", "later"} {
		t.Run(found, func(t *testing.T) { testUnreadable(t, found) })
	}
}

func testUnreadable(t *testing.T, found string) {
	ctx := t.Context()
	inner := memory.New(memory.Options{})
	seeing := open(t, inner, registry.Options{})
	store := &blind{Store: inner}
	var res *registry.Resource
	if found == "later" {
		res = open(t, store, registry.Options{})
	}
	for _, name := range []string{"a", "blind"} {
		if _, err := seeing.Create(ctx, config(name, "1"), registry.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	const garbage = "/registry/configmaps/ns/garbage"
	if _, err := inner.Create(ctx, garbage, []byte("k8s\x00garbage")); err != nil {
		t.Fatal(err)
	}
	switch found {
	case "at start":
		res = open(t, store, registry.Options{})
	case "at start, without a history":
		for _, key := range []string{"/elsewhere/a", "/elsewhere/b"} {
			if _, err := inner.Create(ctx, key, nil); err != nil {
				t.Fatal(err)
			}
		}
		res = open(t, store, registry.Options{History: 1})
	}
	var warnings []string
	listing := registry.WithWarnings(ctx, func(text string) { warnings = append(warnings, text) })
	l, err := res.List(listing, registry.ListOptions{})
	if err != nil || len(l.Items) != 1 || l.Items[0].Object.GetName() != "a" {
		t.Errorf("list: %v, %v", l, err)
	}
	if len(warnings) != 2 || !strings.Contains(warnings[0], "no key for it") || !strings.Contains(warnings[1], "garbage") {
		t.Errorf("warnings: %q", warnings)
	}
	checkUnreadable(t, res)
	w, err := res.Watch(ctx, registry.Selection{}, l.Revision)
	if err != nil {
		t.Fatal(err)
	}
	ignore := true
	o := registry.DeleteOptions{DeleteOptions: metav1.DeleteOptions{IgnoreStoreReadErrorWithClusterBreakingPotential: &ignore}}
	if _, _, err := res.Delete(ctx, "ns", "a", o); !errors.Is(err, registry.ErrConflict) {
		t.Errorf("an unsafe delete of an object that can be read: %v", err)
	}
	if _, gone, err := res.Delete(ctx, "ns", "garbage", o); err != nil || !gone {
		t.Errorf("an unsafe delete: %t, %v", gone, err)
	}
	if _, err := inner.Get(ctx, garbage); !errors.Is(err, storage.ErrNotFound) {
		t.Errorf("the record after its deletion: %v", err)
	}
	if _, err := res.Get(ctx, "ns", "garbage", ""); !errors.Is(err, registry.ErrNotFound) {
		t.Errorf("the object after its deletion: %v", err)
	}
	store.see()
	if _, _, err := seeing.Update(ctx, "ns", "blind", set("2", ""), registry.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	events, err := w.Next(ctx)
	if err != nil || len(events) != 1 || events[0].Type != informer.Added || events[0].Item.Object.GetName() != "blind" {
		t.Errorf("once it can be read: %v, %v", events, err)
	}
	if err := want(res.Get(ctx, "ns", "blind", ""))("2"); err != nil || len(res.Unreadable("")) != 0 {
		t.Errorf("once it can be read: %v, %v", err, res.Unreadable(""))
	}
}

func (b *blind) Get(ctx context.Context, key string) (storage.Record, error) {
	rec, err := b.Store.Get(ctx, key)
	if bad := b.err(key); err == nil && bad != nil {
		rec.Value, rec.Err, err = nil, bad, bad
	}
	return rec, err
}

// TestReadableAgain: when the key comes back, so do the objects, and watches get events for them.
func TestReadableAgain(t *testing.T) { synctest.Test(t, testReadableAgain) }

func testReadableAgain(t *testing.T) {
	inner := memory.New(memory.Options{})
	seeing := open(t, inner, registry.Options{})
	const n = 40
	for i := range n {
		if _, err := seeing.Create(t.Context(), config(fmt.Sprintf("blind-%d", i), "1"), registry.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := inner.Create(t.Context(), "/registry/configmaps/ns/garbage", []byte("k8s\x00garbage")); err != nil {
		t.Fatal(err)
	}
	store := &blind{Store: inner}
	res := open(t, store, registry.Options{})
	w, err := res.Watch(t.Context(), registry.Selection{}, 0)
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(time.Minute)
	if res.Len() != 0 || len(res.Unreadable("")) != n+1 {
		t.Errorf("%d objects, %d unreadable", res.Len(), len(res.Unreadable("")))
	}
	store.see()
	told := map[string]bool{}
	for len(told) < n {
		events, err := w.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range events {
			if name := e.Item.Object.GetName(); e.Type != informer.Added || told[name] {
				t.Fatalf("%s of %s", e.Type, name)
			}
			told[e.Item.Object.GetName()] = true
		}
	}
	if res.Len() != n || len(res.Unreadable("")) != 1 {
		t.Errorf("%d objects, %d unreadable", res.Len(), len(res.Unreadable("")))
	}
}

// checkUnreadable checks that every request for the object fails, and that the error says why.
func checkUnreadable(t *testing.T, res *registry.Resource) {
	t.Helper()
	ctx := t.Context()
	_, getErr := res.Get(ctx, "ns", "blind", "")
	_, _, updateErr := res.Update(ctx, "ns", "blind", set("2", ""), registry.UpdateOptions{})
	_, _, deleteErr := res.Delete(ctx, "ns", "blind", registry.DeleteOptions{})
	for doing, err := range map[string]error{"get": getErr, "update": updateErr, "delete": deleteErr} {
		if !errors.Is(err, registry.ErrInternal) || !strings.Contains(err.Error(), "StorageError: corrupt object, Code: 7, Key: /registry/configmaps/ns/blind") ||
			!strings.Contains(err.Error(), "data from the storage is not transformable revision=") || !strings.Contains(err.Error(), "no key for it") {
			t.Errorf("%s: %v", doing, err)
		}
	}
	if _, err := res.Create(ctx, config("blind", ""), registry.CreateOptions{}); !errors.Is(err, registry.ErrExists) {
		t.Errorf("create: %v", err)
	}
	if n := len(res.Unreadable("ns")); n != 2 {
		t.Errorf("%d are unreadable", n)
	}
	if n := len(res.Unreadable("n")); n != 0 {
		t.Errorf("%d are unreadable in another namespace", n)
	}
}

// aged holds every record in an old form until it is rewritten.
type aged struct {
	*memory.Store
	mu    sync.Mutex
	fresh map[string]bool
}

func (a *aged) Stale(_ context.Context, key string) (bool, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return !a.fresh[key], nil
}

func (a *aged) Update(ctx context.Context, key string, value []byte, expected int64) (int64, error) {
	a.mu.Lock()
	a.fresh[key] = true
	a.mu.Unlock()
	return a.Store.Update(ctx, key, value, expected)
}

// TestRewrite: a write that changes nothing brings a record into the store's current form, once.
func TestRewrite(t *testing.T) {
	res := open(t, &aged{Store: memory.New(memory.Options{}), fresh: map[string]bool{}}, registry.Options{})
	item, err := res.Create(t.Context(), config("a", "1"), registry.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var revisions []int64
	for range 2 {
		again, _, err := res.Update(t.Context(), "ns", "a", set("1", ""), registry.UpdateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		revisions = append(revisions, again.Revision)
	}
	if revisions[0] <= item.Revision || revisions[1] != revisions[0] {
		t.Errorf("created at %d, then %v", item.Revision, revisions)
	}
}
