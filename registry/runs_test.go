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
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/storage"
	"github.com/keelson-dev/keelson/storage/memory"
)

// unsteady is a store of which single calls fail, or end.
type unsteady struct {
	*memory.Store
	list     func(storage.ListOptions) error
	oldest   error
	revision error
	watch    func() error
	at       func(storage.Page) int64 // what a list says it is of
	broken   chan struct{}            // ends all streams
	failure  error                    // how
	open     atomic.Int64             // streams
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

// TestRunEnds: Run ends with the error of a store that fails, and leaves nothing behind; whoever needs the store is told
// from then on, and whoever waits as well. What may be old is still read.
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
				t.Errorf("what may be old: %v, %v", l, err)
			}
			if item, err := res.Get(soon, "ns", "a", strconv.FormatInt(now, 10)); err != nil || item.Revision != now {
				t.Errorf("what was seen: %v, %v", item, err)
			}
		})
	}
}

// TestStarts: a store that cannot be read in is an error that says what failed; what went away meanwhile is tried again
// as it is now.
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

// TestStoreGoesBack: a store that lost what was shown is not followed any more: clients know revisions that will be others'.
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
		want := fmt.Sprintf("the store has gone back from revision %d to %d; restart, so that clients list again", shown, shown-1)
		if err := <-ended; err == nil || err.Error() != want {
			t.Errorf("Run: %v", err)
		}
	})
}

// TestUnreadableIsLogged: each record that cannot be read is told to the logger once, at the start or when it comes, and
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
			t.Fatalf("told: %s", log.String())
		}
		for i, line := range lines {
			if want := fmt.Sprintf("key=/registry/configmaps/ns/blind-%d", i+1); !strings.Contains(line, "level=ERROR") || !strings.Contains(line, "a stored object cannot be read") || !strings.Contains(line, want) || !strings.Contains(line, "no key for it") {
				t.Errorf("told: %s", line)
			}
		}
		// What can be read is selected as ever.
		l, err := res.List(t.Context(), registry.ListOptions{Selection: registry.Selection{Labels: selector(t, "l=v")}})
		if err != nil || strings.Join(listed(l), ",") != "ns/a,ns/b" {
			t.Errorf("list: %v, %v", listed(l), err)
		}
	})
}

// TestPastByIndex: a list at a past revision selects what matched then, whatever was looked at before.
func TestPastByIndex(t *testing.T) {
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
	for i := range 6 {
		label("c"+strconv.Itoa(i), strconv.Itoa(i%2), strconv.Itoa(i%3))
	}
	selections := map[string]string{"": "a/c0,a/c1,a/c2,a/c3,a/c4,a/c5", "tier=1": "a/c1,a/c3,a/c5", "tier=0": "a/c0,a/c2,a/c4", "zone=1": "a/c1,a/c4", "tier=1,zone=1": "a/c1", "tier!=1": "a/c0,a/c2,a/c4"}
	all := []string{"tier=1", "", "zone=1", "tier!=1", "tier=0", "tier=1,zone=1"}
	for _, keep := range [][]string{nil, {""}, {"tier=1"}, {"zone=1", "tier=1"}, all} {
		var was int64
		for _, text := range slices.Concat(keep, all[:1]) { // pages keep the state, and make indexes
			l, err := res.List(t.Context(), registry.ListOptions{Limit: 1, Selection: registry.Selection{Labels: selector(t, text)}})
			if err != nil {
				t.Fatal(err)
			}
			was = l.Revision
		}
		label("c0", "1", "1")
		label("c1", "none", "none")
		label("c6", "1", "1")
		if _, _, err := res.Delete(t.Context(), "a", "c3", registry.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		for _, text := range slices.Concat(all, all) {
			l, err := res.List(t.Context(), registry.ListOptions{
				Selection: registry.Selection{Labels: selector(t, text)}, ResourceVersion: strconv.FormatInt(was, 10), Match: metav1.ResourceVersionMatchExact,
			})
			if err != nil || strings.Join(listed(l), ",") != selections[text] || l.Revision != was {
				t.Errorf("after pages of %q, %q at %d: %v at %d, %v", keep, text, was, listed(l), l.Revision, err)
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

// TestListEndsWithItsClient: a list looks at no more once nobody waits for it.
func TestListEndsWithItsClient(t *testing.T) {
	res := open(t, memory.New(memory.Options{}), registry.Options{})
	for i := range 20 {
		create(t, res, "ns", strconv.Itoa(i), nil)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var seen atomic.Int64
	s := leaving{countingFields{fieldSelector(t, "metadata.name!=x"), &seen}, cancel}
	if _, err := res.List(ctx, registry.ListOptions{Selection: registry.Selection{Fields: s}}); !errors.Is(err, context.Canceled) || seen.Load() != 1 {
		t.Errorf("%v after %d objects", err, seen.Load())
	}
}

// leaving ends the wait for a list that looks at something.
type leaving struct {
	countingFields
	end context.CancelFunc
}

func (l leaving) Matches(f fields.Fields) bool {
	l.end()
	return l.countingFields.Matches(f)
}

// having selects what has a field.
type having struct {
	fields.Selector
	field string
}

func (h having) Matches(f fields.Fields) bool { return f.Has(h.field) }

// TestFieldsAreWorkedOutOnce: selectors may ask which fields there are; a kind is asked for them once for each state.
func TestFieldsAreWorkedOutOnce(t *testing.T) {
	k, asked := colors(registry.Rules[*corev1.ConfigMap]{}), 0
	inner := k.Fields
	k.Fields = func(c *corev1.ConfigMap) fields.Set { asked++; return inner(c) }
	res := openKind(t, memory.New(memory.Options{}), k.Kind(), registry.Options{})
	for i := range 5 {
		create(t, res, "ns", strconv.Itoa(i), nil)
	}
	for field, want := range map[string]int{"data.color": 5, "metadata.name": 5, "metadata.namespace": 5, "data": 0, "": 0} {
		l, err := res.List(t.Context(), registry.ListOptions{Selection: registry.Selection{Fields: having{fieldSelector(t, "x!=y"), field}}})
		if err != nil || len(l.Items) != want {
			t.Errorf("%q: %v, %v", field, listed(l), err)
		}
	}
	if asked != 5 {
		t.Errorf("asked %d times about 5 objects", asked)
	}
}

// TestWatchByName: who watches a name is told of it in the namespace, or in all of them.
func TestWatchByName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var looked atomic.Int64
		reg := openKinds(t, memory.New(memory.Options{}), sorts()...)
		res, _ := reg.Resource(configMapsResource)
		spaces, _ := reg.Resource(namespacesResource)
		x := fields.OneTermEqualSelector("metadata.name", "x")
		watches := map[string]*registry.Watch{}
		for name, s := range map[string]registry.Selection{"a": {Namespace: "a", Fields: x}, "all": {Fields: x}, "cluster": {Fields: countingFields{x, &looked}}} {
			of := res
			if name == "cluster" {
				of = spaces
			}
			w, err := of.Watch(t.Context(), s, 0)
			if err != nil {
				t.Fatal(err)
			}
			watches[name] = w
		}
		told := map[string][]string{}
		ended := make(chan string)
		for name, w := range watches {
			go func() {
				var got []string
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				for {
					events, err := w.Next(ctx)
					if err != nil {
						break
					}
					for _, e := range events {
						got = append(got, strings.TrimPrefix(e.Item.Object.GetNamespace()+"/"+e.Item.Object.GetName(), "/"))
					}
				}
				ended <- name + ":" + strings.Join(got, ",")
			}()
		}
		synctest.Wait()
		for _, key := range [][2]string{{"a", "x"}, {"b", "x"}, {"a", "y"}} {
			create(t, res, key[0], key[1], nil)
			synctest.Wait()
		}
		for _, name := range []string{"y", "x"} {
			if _, err := spaces.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, registry.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		for range watches {
			name, got, _ := strings.Cut(<-ended, ":")
			told[name] = strings.Split(got, ",")
		}
		for name, want := range map[string][]string{"a": {"a/x"}, "all": {"a/x", "b/x"}, "cluster": {"x"}} {
			if !slices.Equal(told[name], want) {
				t.Errorf("%s: %v", name, told[name])
			}
		}
		if n := looked.Load(); n != 1 {
			t.Errorf("%d objects were looked at for one in no namespace", n)
		}
	})
}

// TestCrowds: a change's writer wakes a few watches itself; more than sixteen wait for the herd, and all are told.
func TestCrowds(t *testing.T) {
	for _, c := range []struct{ watches, leave, atOnce int }{
		{watches: 1, atOnce: 1}, {watches: 3, atOnce: 3}, {watches: 16, atOnce: 16}, {watches: 17, atOnce: 0}, {watches: 50, atOnce: 0},
		{watches: 50, leave: 40, atOnce: 10}, {watches: 20, leave: 1, atOnce: 0}, {watches: 20, leave: 4, atOnce: 16},
	} {
		synctest.Test(t, func(t *testing.T) {
			res := open(t, memory.New(memory.Options{}), registry.Options{})
			var told atomic.Int64
			ctx, end := context.WithCancel(t.Context())
			defer synctest.Wait()
			defer end()
			leaving, leave := context.WithCancel(ctx)
			defer leave()
			for i := range c.watches {
				w, err := res.Watch(ctx, registry.Selection{Namespace: "ns"}, 0)
				if err != nil {
					t.Fatal(err)
				}
				waits := ctx
				if i%2 == 0 && i/2 < c.leave || i%2 == 1 && c.watches-i <= 2*(c.leave-c.watches/2) { // from all over the list
					waits = leaving
				}
				go func() {
					if events, err := w.Next(waits); err == nil {
						told.Add(int64(len(events)))
					}
				}()
				synctest.Wait()
			}
			left := c.watches - c.leave
			leave()
			synctest.Wait()
			create(t, res, "other", "a", nil)
			create(t, res, "ns", "a", nil)
			synctest.Wait()
			if n := told.Load(); n != int64(c.atOnce) {
				t.Errorf("%+v: %d were told at once", c, n)
			}
			time.Sleep(time.Second)
			synctest.Wait()
			if n := told.Load(); n != int64(left) {
				t.Errorf("%+v: %d of %d were told", c, n, left)
			}
		})
	}
}

// TestWatchersThatWent: watches tell changes apart by what the watches that are there select, not by what those did that went.
func TestWatchersThatWent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		res := open(t, memory.New(memory.Options{}), registry.Options{})
		for i := range 40 {
			w, err := res.Watch(t.Context(), registry.Selection{Labels: selector(t, "l"+strconv.Itoa(i)+"=v")}, 0)
			if err != nil {
				t.Fatal(err)
			}
			short, cancel := context.WithTimeout(t.Context(), time.Second)
			if _, err := w.Next(short); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("watch %d: %v", i, err)
			}
			cancel()
		}
		var looked atomic.Int64
		w, err := res.Watch(t.Context(), registry.Selection{Labels: counting{selector(t, "last=v"), &looked}}, 0)
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			short, cancel := context.WithTimeout(t.Context(), time.Hour)
			defer cancel()
			_, _ = w.Next(short)
		}()
		synctest.Wait()
		for i := range 10 {
			create(t, res, "ns", strconv.Itoa(i), map[string]string{"last": "other"})
		}
		time.Sleep(time.Minute)
		if n := looked.Load(); n != 0 {
			t.Errorf("%d objects were looked at that do not concern the watch", n)
		}
		time.Sleep(time.Hour)
	})
}

// TestExpiresAll: all that is too old goes at once, not one a minute.
func TestExpiresAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kind := configMaps()
		kind.TTL = time.Hour
		res := openKind(t, memory.New(memory.Options{}), kind, registry.Options{})
		for i := range 10 {
			create(t, res, "ns", strconv.Itoa(i), nil)
		}
		time.Sleep(59 * time.Minute)
		if n := res.Len(); n != 10 {
			t.Errorf("%d are left before their time is over", n)
		}
		time.Sleep(150 * time.Second)
		if n := res.Len(); n != 0 {
			t.Errorf("%d are left", n)
		}
	})
}

// TestErrorsText: an error names resource, object and reason, and the details behind it.
func TestErrorsText(t *testing.T) {
	gr := schema.GroupResource{Group: "apps", Resource: "deployments"}
	err := registry.Errorf(registry.ErrConflict, registry.ObjectKey{Resource: gr, Namespace: "ns", Name: "x"}, "by %d", 2)
	if got := err.Error(); got != `deployments.apps "x": conflict: by 2` {
		t.Errorf("%s", got)
	}
	if got := (&registry.Error{Err: registry.ErrNotFound, Resource: gr, Name: "x"}).Error(); got != `deployments.apps "x": not found` {
		t.Errorf("%s", got)
	}
	res := open(t, memory.New(memory.Options{}), registry.Options{})
	_, invalid := res.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "x"}}, registry.CreateOptions{})
	if got := fmt.Sprint(invalid); got != `configmaps "x": invalid: metadata.namespace: Required value` {
		t.Errorf("%s", got)
	}
}

// TestColumnsOfKinds: the columns that many kinds share.
func TestColumnsOfKinds(t *testing.T) {
	for _, c := range []struct {
		got, want metav1.TableColumnDefinition
	}{
		{registry.TextColumn("A", "b"), metav1.TableColumnDefinition{Name: "A", Type: "string", Description: "b"}},
		{registry.WideColumn("A", "b"), metav1.TableColumnDefinition{Name: "A", Type: "string", Description: "b", Priority: 1}},
		{registry.NameColumn(), metav1.TableColumnDefinition{Name: "Name", Type: "string", Format: "name", Description: metav1.ObjectMeta{}.SwaggerDoc()["name"]}},
		{registry.AgeColumn(), metav1.TableColumnDefinition{Name: "Age", Type: "string", Description: metav1.ObjectMeta{}.SwaggerDoc()["creationTimestamp"]}},
	} {
		if c.got != c.want {
			t.Errorf("%+v, want %+v", c.got, c.want)
		}
	}
}

// TestUnreadableWarnings: a list warns of ten objects that it leaves out, and of how many more there are.
func TestUnreadableWarnings(t *testing.T) {
	for n, want := range map[int]string{0: "", 1: "not in this list", 10: "not in this list", 11: "1 more configmaps cannot be read and are not in this list", 14: "4 more configmaps cannot be read and are not in this list"} {
		store := memory.New(memory.Options{})
		for i := range n {
			if _, err := store.Create(t.Context(), fmt.Sprintf("/registry/configmaps/ns/c%02d", i), []byte("damaged")); err != nil {
				t.Fatal(err)
			}
		}
		res := open(t, store, registry.Options{})
		var told []string
		ctx := registry.WithWarnings(t.Context(), func(text string) { told = append(told, text) })
		if l, err := res.List(ctx, registry.ListOptions{}); err != nil || len(l.Items) != 0 {
			t.Errorf("list: %v, %v", l, err)
		}
		if len(told) != min(n, 11) || n > 0 && (!strings.Contains(told[0], `configmaps "c00": `) || !strings.HasPrefix(told[len(told)-1], want)) {
			t.Errorf("of %d: %q", n, told)
		}
	}
}

// TestDamagedVersions: what is damaged in any version that may be stored cannot be read, and what is of none of them is
// read as the kind's own.
func TestDamagedVersions(t *testing.T) {
	k := configMaps()
	k.Also = []registry.Version{{
		Names: registry.Names{Kind: "ConfigMap"}, GroupVersion: schema.GroupVersion{Group: "also", Version: "v1"},
		New:      func() registry.Object { return &corev1.ConfigMap{} },
		ToStored: func(o registry.Object) registry.Object { o.SetLabels(map[string]string{"from": "also"}); return o },
	}}
	k.Older = []registry.Older{{
		GroupVersion: schema.GroupVersion{Group: "older", Version: "v1"},
		New:          func() runtime.Object { return &corev1.ConfigMap{} },
		ToStored: func(o runtime.Object) registry.Object {
			o.(*corev1.ConfigMap).SetLabels(map[string]string{"from": "older"})
			return o.(*corev1.ConfigMap)
		},
	}}
	store := memory.New(memory.Options{})
	for name, value := range map[string]string{
		"own": `{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"own"}}`, "also": `{"kind":"ConfigMap","apiVersion":"also/v1","metadata":{"name":"also"}}`,
		"older":   `{"kind":"ConfigMap","apiVersion":"older/v1","metadata":{"name":"older"}}`,
		"bad-own": `{"kind":"ConfigMap","apiVersion":"v1","metadata":5}`, "bad-also": `{"kind":"ConfigMap","apiVersion":"also/v1","metadata":5}`,
		"bad-older": `{"kind":"ConfigMap","apiVersion":"older/v1","metadata":5}`, "none": `?`,
	} {
		if _, err := store.Create(t.Context(), "/registry/configmaps/ns/"+name, []byte(value)); err != nil {
			t.Fatal(err)
		}
	}
	res := openKind(t, store, k, registry.Options{})
	for name, from := range map[string]string{"own": "", "also": "also", "older": "older"} {
		if item, err := res.Get(t.Context(), "ns", name, ""); err != nil || item.Object.GetLabels()["from"] != from {
			t.Errorf("%s: %v, %v", name, item, err)
		}
	}
	for _, name := range []string{"bad-own", "bad-also", "bad-older", "none"} {
		if _, err := res.Get(t.Context(), "ns", name, ""); !errors.Is(err, registry.ErrInternal) || !strings.Contains(err.Error(), "object not decodable") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if res.Len() != 3 || len(res.Unreadable("")) != 4 {
		t.Errorf("%d can be read, %d not", res.Len(), len(res.Unreadable("")))
	}
}
