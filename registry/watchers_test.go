package registry_test

import (
	"context"
	"errors"
	"fmt"
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
	"github.com/keelson-dev/keelson/storage/memory"
)

// TestListEndsWithItsClient: a list examines no more objects once its context has ended.
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

// leaving ends the context of a list when it examines an object.
type leaving struct {
	countingFields
	end context.CancelFunc
}

func (l leaving) Matches(f fields.Fields) bool {
	l.end()
	return l.countingFields.Matches(f)
}

// having selects objects that have a field.
type having struct {
	fields.Selector
	field string
}

func (h having) Matches(f fields.Fields) bool { return f.Has(h.field) }

// TestFieldsAreComputedOnce: selectors may ask which fields exist; a kind computes them once per state.
func TestFieldsAreComputedOnce(t *testing.T) {
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

// TestWatchByName: a watch by name gets the events in its namespace, or in all of them.
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
			t.Errorf("%d objects were examined for a cluster-scoped one", n)
		}
	})
}

// TestManyWatches: a writer wakes a few watches itself and leaves more than sixteen to the waker; all are woken.
func TestManyWatches(t *testing.T) {
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
				t.Errorf("%+v: %d got the event at once", c, n)
			}
			time.Sleep(time.Second)
			synctest.Wait()
			if n := told.Load(); n != int64(left) {
				t.Errorf("%+v: %d of %d got the event", c, n, left)
			}
		})
	}
}

// TestEndedWatches: changes are compared by the selections of the remaining watches, not of those that
// ended.
func TestEndedWatches(t *testing.T) {
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
			t.Errorf("%d objects were examined that do not concern the watch", n)
		}
		time.Sleep(time.Hour)
	})
}

// TestExpiresAll: all expired objects are deleted at once, not one a minute.
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

// TestErrorText: an error names resource, object and reason, followed by the details.
func TestErrorText(t *testing.T) {
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

// TestCommonColumns: the columns that many kinds share.
func TestCommonColumns(t *testing.T) {
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

// TestUnreadableWarnings: a list warns of ten omitted objects, and of how many more there are.
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

// TestDamagedVersions: an object damaged in any version that may be stored cannot be read; one of an unknown
// version is read as the kind's own.
func TestDamagedVersions(t *testing.T) {
	k := configMaps()
	k.Also = []registry.Version{{
		Names: registry.Names{Kind: "ConfigMap"}, GroupVersion: schema.GroupVersion{Group: "also", Version: "v1"},
		New: func() registry.Object { return &corev1.ConfigMap{} },
		ToStored: func(_ context.Context, o registry.Object) (registry.Object, error) {
			o.SetLabels(map[string]string{"from": "also"})
			return o, nil
		},
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
