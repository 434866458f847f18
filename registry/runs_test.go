package registry_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/storage"
	"github.com/keelson-dev/keelson/storage/memory"
)

// unsteady is a store whose calls can be made to fail, or its streams to end.
type unsteady struct {
	*memory.Store
	list     func(storage.ListOptions) error
	oldest   error
	revision error
	watch    func() error
	at       func(storage.Page) int64 // the revision that a list reports
	broken   chan struct{}            // ends all streams when closed
	failure  error                    // with this error
	open     atomic.Int64             // open streams
}

func (u *unsteady) List(ctx context.Context, prefix string, o storage.ListOptions) (storage.Page, error) {
	if u.list != nil {
		if err := u.list(o); err != nil {
			return storage.Page{}, err
		}
	}
	page, err := u.Store.List(ctx, prefix, o)
	if u.at != nil {
		page.Revision = u.at(page)
	}
	return page, err
}

func (u *unsteady) Oldest(ctx context.Context) (int64, error) {
	if u.oldest != nil {
		return 0, u.oldest
	}
	return u.Store.Oldest(ctx)
}

func (u *unsteady) Revision(ctx context.Context) (int64, error) {
	if u.revision != nil {
		return 0, u.revision
	}
	return u.Store.Revision(ctx)
}

func (u *unsteady) Watch(ctx context.Context, prefix string, after int64) (storage.Stream, error) {
	if u.watch != nil {
		if err := u.watch(); err != nil {
			return nil, err
		}
	}
	s, err := u.Store.Watch(ctx, prefix, after)
	if err == nil {
		u.open.Add(1)
	}
	return unsteadyStream{s, u}, err
}

type unsteadyStream struct {
	storage.Stream
	of *unsteady
}

func (s unsteadyStream) Next(ctx context.Context) ([]storage.Event, error) {
	type told struct {
		events []storage.Event
		err    error
	}
	next := make(chan told, 1)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		events, err := s.Stream.Next(ctx)
		next <- told{events, err}
	}()
	select {
	case n := <-next:
		return n.events, n.err
	case <-s.of.broken:
		return nil, s.of.failure
	}
}

func (s unsteadyStream) Close() {
	s.of.open.Add(-1)
	s.Stream.Close()
}

// TestRunEnds: Run ends with the error of a failed store, and leaves nothing behind; readers and waiters that
// need the store get an error from then on. Reads that may be stale still succeed.
func TestRunEnds(t *testing.T) {
	broken := errors.New("broken")
	for _, failure := range []error{broken, nil} { // nil: its context ends
		synctest.Test(t, func(t *testing.T) {
			store := &unsteady{Store: memory.New(memory.Options{}), broken: make(chan struct{}), failure: failure}
			reg, err := registry.New(store, []registry.Kind{configMaps()}, registry.Options{})
			if err != nil {
				t.Fatal(err)
			}
			ctx, end := context.WithCancel(t.Context())
			defer end()
			ended := make(chan error, 1)
			go func() { ended <- reg.Run(ctx) }()
			if err := reg.WaitSynced(t.Context()); err != nil {
				t.Fatal(err)
			}
			res, _ := reg.Resource(configMapsResource)
			create(t, res, "ns", "a", nil)
			now := reg.Revision()
			waiting := make(chan error, 1)
			go func() {
				_, err := res.Get(t.Context(), "ns", "a", strconv.FormatInt(now+1, 10))
				waiting <- err
			}()
			synctest.Wait()
			if failure != nil {
				close(store.broken)
			} else {
				end()
			}
			if err := <-ended; !errors.Is(err, failure) || failure == nil && err != nil {
				t.Errorf("Run: %v", err)
			}
			if n := store.open.Load(); n != 0 {
				t.Errorf("%d streams are left open", n)
			}
			if _, err := store.Store.Create(t.Context(), "/elsewhere", nil); err != nil {
				t.Fatal(err)
			}
			soon, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			_, listing := res.List(soon, registry.ListOptions{})
			_, creating := res.Create(soon, config("b", ""), registry.CreateOptions{})
			_, watching := res.Watch(soon, registry.Selection{}, now+1)
			for what, err := range map[string]error{"list": listing, "create": creating, "get": <-waiting, "watch": watching} {
				if err == nil || !strings.Contains(err.Error(), "registry is not running") || failure != nil && !errors.Is(err, failure) || registry.FutureRevision(err) {
					t.Errorf("%s: %v", what, err)
				}
			}
			if l, err := res.List(soon, registry.ListOptions{ResourceVersion: "0"}); err != nil || len(l.Items) != 1 {
				t.Errorf("a possibly stale list: %v, %v", l, err)
			}
			if item, err := res.Get(soon, "ns", "a", strconv.FormatInt(now, 10)); err != nil || item.Revision != now {
				t.Errorf("a possibly stale read: %v, %v", item, err)
			}
		})
	}
}

// TestStarts: failing to read the store is an error that names the failed call; if the past was compacted
// meanwhile, the registry reads the present.
func TestStarts(t *testing.T) {
	broken := errors.New("broken")
	compacted := func(times int) func() error {
		return func() error {
			if times--; times >= 0 {
				return fmt.Errorf("gone: %w", storage.ErrCompacted)
			}
			return nil
		}
	}
	for name, c := range map[string]struct {
		change func(*unsteady)
		want   string
	}{
		"well":          {change: func(*unsteady) {}},
		"list":          {func(u *unsteady) { u.list = func(storage.ListOptions) error { return broken } }, "list the store: broken"},
		"history":       {func(u *unsteady) { u.oldest = broken }, "ask the store for its history: broken"},
		"revision":      {func(u *unsteady) { u.revision = broken }, "ask the store for its revision: broken"},
		"watch":         {func(u *unsteady) { u.watch = func() error { return broken } }, "broken"},
		"then revision": {func(u *unsteady) { u.watch = func() error { u.revision = broken; return nil } }, "ask the store for its revision: broken"},
		"list, compacted": {change: func(u *unsteady) {
			again := compacted(2)
			u.list = func(storage.ListOptions) error { return again() }
		}},
		"history, compacted": {change: func(u *unsteady) {
			u.list = func(o storage.ListOptions) error {
				if o.Revision != 0 && o.After == "" {
					return storage.ErrCompacted
				}
				return nil
			}
		}},
		"watch, compacted": {change: func(u *unsteady) { u.watch = compacted(2) }},
	} {
		synctest.Test(t, func(t *testing.T) {
			store := &unsteady{Store: memory.New(memory.Options{}), broken: make(chan struct{})}
			for i := range 3 {
				if _, err := store.Create(t.Context(), fmt.Sprintf("/registry/configmaps/ns/%d", i), []byte(`{"kind":"ConfigMap","apiVersion":"v1"}`)); err != nil {
					t.Fatal(err)
				}
			}
			c.change(store)
			reg, err := registry.New(store, []registry.Kind{configMaps()}, registry.Options{})
			if err != nil {
				t.Fatal(err)
			}
			ctx, end := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() { ended <- reg.Run(ctx) }()
			synctest.Wait()
			res, _ := reg.Resource(configMapsResource)
			select {
			case err := <-ended:
				if c.want == "" || err == nil || err.Error() != c.want || !errors.Is(err, broken) {
					t.Errorf("%s: %v", name, err)
				}
			default:
				if err := reg.WaitSynced(ctx); err != nil || c.want != "" || res.Len() != 3 {
					t.Errorf("%s: %v, %d are there", name, err, res.Len())
				}
				end()
				if err := <-ended; err != nil {
					t.Errorf("%s: %v", name, err)
				}
			}
			end()
			if n := store.open.Load(); n != 0 {
				t.Errorf("%s: %d streams are left open", name, n)
			}
			if c.want != "" {
				short, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				if err := reg.WaitSynced(short); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("%s: synced, %v", name, err)
				}
			}
		})
	}
}

// TestStoreGoesBack: a store that lost revisions is not followed any more: clients know them, and others would
// reuse them.
func TestStoreGoesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &unsteady{Store: memory.New(memory.Options{}), broken: make(chan struct{}), failure: storage.ErrCompacted}
		reg, err := registry.New(store, []registry.Kind{configMaps()}, registry.Options{})
		if err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- reg.Run(t.Context()) }()
		if err := reg.WaitSynced(t.Context()); err != nil {
			t.Fatal(err)
		}
		res, _ := reg.Resource(configMapsResource)
		create(t, res, "ns", "a", nil)
		shown := reg.Revision()
		store.at = func(storage.Page) int64 { return shown - 1 }
		close(store.broken)
		want := fmt.Sprintf("the store went back from revision %d to %d; restart the server so that clients list again", shown, shown-1)
		if err := <-ended; err == nil || err.Error() != want {
			t.Errorf("Run: %v", err)
		}
	})
}

// TestUnreadableIsLogged: each unreadable record is logged once, at the start or when it is written, and
// nothing else is.
func TestUnreadableIsLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &blind{Store: memory.New(memory.Options{})}
		put := func(name string) {
			t.Helper()
			if _, err := store.Create(t.Context(), "/registry/configmaps/ns/"+name, []byte(`{"kind":"ConfigMap","apiVersion":"v1","metadata":{"namespace":"ns","name":"`+name+`","labels":{"l":"v"}}}`)); err != nil {
				t.Fatal(err)
			}
		}
		put("a")
		put("blind-1")
		var log bytes.Buffer
		res := open(t, store, registry.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
		put("b")
		put("blind-2")
		synctest.Wait()
		lines := strings.Split(strings.TrimSpace(log.String()), "\n")
		if len(lines) != 2 {
			t.Fatalf("logged: %s", log.String())
		}
		for i, line := range lines {
			if want := fmt.Sprintf("key=/registry/configmaps/ns/blind-%d", i+1); !strings.Contains(line, "level=ERROR") || !strings.Contains(line, "a stored object cannot be read") || !strings.Contains(line, want) || !strings.Contains(line, "no key for it") {
				t.Errorf("logged: %s", line)
			}
		}
		// Readable objects are selected as usual.
		l, err := res.List(t.Context(), registry.ListOptions{Selection: registry.Selection{Labels: selector(t, "l=v")}})
		if err != nil || strings.Join(listed(l), ",") != "ns/a,ns/b" {
			t.Errorf("list: %v, %v", listed(l), err)
		}
	})
}

// TestPastByIndex: a list at a past revision selects what matched then, whatever was listed before, and leaves later lists as
// they are. It does so even if there are as many indexes as there may be.
func TestPastByIndex(t *testing.T) {
	t.Run("by index", func(t *testing.T) { testPastByIndex(t, 0) })
	t.Run("without an index", func(t *testing.T) { testPastByIndex(t, 16) })
}

func testPastByIndex(t *testing.T, others int) {
	res := openKind(t, memory.New(memory.Options{}), colors(registry.Rules[*corev1.ConfigMap]{}).Kind(), registry.Options{})
	label := func(name, tier, zone string) {
		t.Helper()
		_, _, err := res.Update(t.Context(), "a", name, func(context.Context, registry.Object) (registry.Object, error) {
			return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: name, Labels: map[string]string{"tier": tier, "zone": zone}}}, nil
		}, registry.UpdateOptions{Create: true})
		if err != nil {
			t.Fatal(err)
		}
	}
	list := func(text string, o registry.ListOptions) (string, int64) {
		t.Helper()
		o.Labels = selector(t, text)
		l, err := res.List(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		return strings.Join(listed(l), ","), l.Revision
	}
	for i := range others {
		list(fmt.Sprintf("other%d=x", i), registry.ListOptions{})
	}
	for i := range 6 {
		label("c"+strconv.Itoa(i), strconv.Itoa(i%2), strconv.Itoa(i%3))
	}
	selections := map[string]string{"": "a/c0,a/c1,a/c2,a/c3,a/c4,a/c5", "tier=1": "a/c1,a/c3,a/c5", "tier=0": "a/c0,a/c2,a/c4", "zone=1": "a/c1,a/c4", "tier=1,zone=1": "a/c1", "tier!=1": "a/c0,a/c2,a/c4"}
	all := []string{"tier=1", "", "zone=1", "tier!=1", "tier=0", "tier=1,zone=1"}
	for _, keep := range [][]string{nil, {""}, {"tier=1"}, {"zone=1", "tier=1"}, all} {
		var was int64
		for _, text := range slices.Concat(keep, all[:1]) { // pages keep the state, and make indexes
			_, was = list(text, registry.ListOptions{Limit: 1})
		}
		label("c0", "1", "1")
		label("c1", "none", "none")
		label("c6", "1", "1")
		if _, _, err := res.Delete(t.Context(), "a", "c3", registry.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		for _, text := range slices.Concat(all, all) {
			got, at := list(text, registry.ListOptions{ResourceVersion: strconv.FormatInt(was, 10), Match: metav1.ResourceVersionMatchExact})
			if got != selections[text] || at != was {
				t.Errorf("after pages of %q, %q at %d: %v at %d", keep, text, was, got, at)
			}
		}
		for text, want := range map[string]string{"tier=1": "a/c0,a/c5,a/c6", "zone=1": "a/c0,a/c4,a/c6"} {
			if now, _ := list(text, registry.ListOptions{}); now != want {
				t.Errorf("after pages of %q, the newest of %s are %s", keep, text, now)
			}
		}
		label("c0", "0", "0")
		label("c1", "1", "1")
		label("c3", "1", "0")
		if _, _, err := res.Delete(t.Context(), "a", "c6", registry.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
}
