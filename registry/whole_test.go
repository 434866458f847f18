package registry_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/storage"
	"github.com/keelson-dev/keelson/storage/memory"
)

// TestDefinition: everything that a definition says is in its kind.
func TestDefinition(t *testing.T) {
	tired := errors.New("tired")
	d := colors(registry.Rules[*corev1.ConfigMap]{})
	d.Columns = registry.Columns[*corev1.ConfigMap]{
		Definitions: []metav1.TableColumnDefinition{registry.NameColumn()},
		Cells:       func(c *corev1.ConfigMap, _ time.Time) []any { return []any{c.Name} },
		Among: func(all []*corev1.ConfigMap) func(*corev1.ConfigMap, time.Time) []any {
			return func(c *corev1.ConfigMap, _ time.Time) []any { return []any{c.Name, all[0].Name, len(all)} }
		},
		Conditions: func(c *corev1.ConfigMap) []metav1.TableRowCondition {
			return []metav1.TableRowCondition{{Message: c.Name}}
		},
	}
	d.Sub.Scale = &registry.Scale[*corev1.ConfigMap]{Readable: func(c *corev1.ConfigMap) error {
		if c.Name == "b" {
			return tired
		}
		return nil
	}}
	k, a, b := d.Kind(), config("a", ""), config("b", "")
	if got := k.Columns.Among([]registry.Object{a, b})(b, time.Time{}); fmt.Sprint(got) != "[b a 2]" {
		t.Errorf("cells among others: %v", got)
	}
	if got := k.Columns.Conditions(b); len(got) != 1 || got[0].Message != "b" {
		t.Errorf("conditions: %v", got)
	}
	if err := k.Sub.Scale.Readable(b); !errors.Is(err, tired) || k.Sub.Scale.Readable(a) != nil {
		t.Errorf("readable: %v", err)
	}
	if list := k.ListKind(); list != "ConfigMapList" {
		t.Errorf("a list is a %s", list)
	}
	if k.List = "Maps"; k.ListKind() != "Maps" {
		t.Errorf("a list is a %s", k.ListKind())
	}
}

// TestStoredForm: what Store changes of an object is stored and answered; an action writes what it says.
func TestStoredForm(t *testing.T) {
	rules := registry.Rules[*corev1.ConfigMap]{Effects: registry.Effects[*corev1.ConfigMap]{}}
	rules.Store = func(c *corev1.ConfigMap) { c.Data = map[string]string{"stored": c.Data["v"]} }
	r := run(t, memory.New(memory.Options{}), ruled(rules))
	res, _ := r.Resource(gr())
	check := func(what, want string, item *registry.Item, err error) {
		t.Helper()
		if err != nil || fmt.Sprint(item.Object.(*corev1.ConfigMap).Data) != want {
			t.Errorf("%s: %+v, %v", what, item, err)
		}
	}
	for _, dry := range []bool{true, false} {
		item, err := res.Create(t.Context(), config("a", "1"), registry.CreateOptions{DryRun: dry})
		check("create", "map[stored:1]", item, err)
	}
	for _, dry := range []bool{true, false} {
		item, _, err := res.Update(t.Context(), "ns", "a", set("2", ""), registry.UpdateOptions{DryRun: dry})
		check("update", "map[stored:2]", item, err)
	}
	item, _, err := res.Update(t.Context(), "ns", "a", set("3", ""), registry.UpdateOptions{Raw: true})
	check("raw", "map[v:3]", item, err)
}

// TestShare: a new state may share parts of the one before, whichever server wrote it.
func TestShare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New(memory.Options{})
		var seen []string
		here, _ := run(t, store, ruled(registry.Rules[*corev1.ConfigMap]{Share: func(c, before *corev1.ConfigMap) {
			seen = append(seen, before.Data["k"]+"-"+c.Data["k"])
		}})).Resource(gr())
		there, _ := run(t, store, configMaps()).Resource(gr())
		put(t, here, "a", "1")
		write(t, here, "a", "2")
		write(t, there, "a", "3")
		synctest.Wait()
		if got := strings.Join(seen, " "); got != "1-2 2-3" {
			t.Errorf("shares %s", got)
		}
	})
}

// TestBegin: what the beginning of a deletion changes is stored, once.
func TestBegin(t *testing.T) {
	deletion := graceful()
	deletion.Begin = func(c *corev1.ConfigMap) { c.Data = map[string]string{"begun": c.Data["begun"] + "x"} }
	for _, finalizers := range [][]string{nil, {"example.com/hold"}} {
		withShelf(t, registry.Rules[*corev1.ConfigMap]{Deletion: deletion}, finalizers, func(t *testing.T, s *shelf) {
			for _, grace := range []int64{20, 10} {
				if s.delete(grace); s.there() == nil || s.there().Data["begun"] != "x" {
					t.Errorf("%+v", s.there())
				}
			}
		})
	}
	deletion.Grace = nil
	began := metav1.Unix(1000, 0)
	byItself := deletion
	byItself.Begin = func(c *corev1.ConfigMap) {
		c.DeletionTimestamp, c.Data = &began, map[string]string{"begun": c.Data["begun"] + "x"}
	}
	withShelf(t, registry.Rules[*corev1.ConfigMap]{Deletion: byItself}, []string{"example.com/hold"}, func(t *testing.T, s *shelf) {
		if s.delete(unasked); s.there() == nil || s.there().Data["begun"] != "x" || !s.there().DeletionTimestamp.Equal(&began) {
			t.Errorf("%+v", s.there())
		}
	})
	withShelf(t, registry.Rules[*corev1.ConfigMap]{Deletion: deletion}, []string{"example.com/hold"}, func(t *testing.T, s *shelf) {
		if s.delete(unasked); s.there() == nil || s.there().Data["begun"] != "x" {
			t.Errorf("%+v", s.there())
		}
	})
}

// TestDecorated: clients see what Decorate adds, which is made once for each state and changes no stored object.
func TestDecorated(t *testing.T) {
	made := 0
	rules := registry.Rules[*corev1.ConfigMap]{}
	rules.Decorate = func(c *corev1.ConfigMap) { made++; c.Data["seen"] = "yes" }
	res, _ := run(t, memory.New(memory.Options{}), ruled(rules)).Resource(gr())
	put(t, res, "a", "1")
	item, err := res.Get(t.Context(), "ns", "a", "")
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		shown, err := res.Shown(t.Context(), item)
		if err != nil || shown.(*corev1.ConfigMap).Data["seen"] != "yes" || len(item.Object.(*corev1.ConfigMap).Data) != 1 {
			t.Errorf("shown %+v, %v; stored %+v", shown, err, item.Object)
		}
	}
	if made != 1 {
		t.Errorf("made %d times", made)
	}
}

// TestConverted: a conversion is kept if it succeeds, except for a single answer.
func TestConverted(t *testing.T) {
	res, _ := run(t, memory.New(memory.Options{}), configMaps()).Resource(gr())
	put(t, res, "a", "1")
	item, err := res.Get(t.Context(), "ns", "a", "")
	if err != nil {
		t.Fatal(err)
	}
	broken, made := errors.New("broken"), 0
	convert := func(item *registry.Item, to string, fails error) error {
		obj, err := item.Converted(to, func(obj registry.Object) (registry.Object, error) {
			made++
			return obj.DeepCopyObject().(registry.Object), fails
		})
		if err == nil && obj.GetName() != "a" {
			t.Errorf("%s: %+v", to, obj)
		}
		return err
	}
	if err := convert(item, "v2", broken); !errors.Is(err, broken) || item.HasConverted("v2") {
		t.Errorf("%v, kept %t", err, item.HasConverted("v2"))
	}
	for range 2 {
		if err := convert(item, "v2", nil); err != nil || !item.HasConverted("v2") || item.HasConverted("v3") {
			t.Errorf("%v, kept %t", err, item.HasConverted("v2"))
		}
	}
	once := item.Once()
	if convert(once, "v2", nil) != nil || made != 2 || once.Object != item.Object || once.Revision != item.Revision {
		t.Errorf("made %d times, want 2", made)
	}
	if convert(once, "v3", nil) != nil || once.HasConverted("v3") || item.HasConverted("v3") {
		t.Error("what was made for a single answer is kept")
	}
}

// TestFurtherVersions: a kind is served in each of its versions, with what these say of themselves.
func TestFurtherVersions(t *testing.T) {
	other := schema.GroupVersion{Group: "example.com", Version: "v2"}
	suffix := func(s string) func(context.Context, registry.Object) (registry.Object, error) {
		return func(_ context.Context, obj registry.Object) (registry.Object, error) {
			obj = obj.DeepCopyObject().(registry.Object)
			obj.SetName(obj.GetName() + s)
			return obj, nil
		}
	}
	k := configMaps()
	cells := func(registry.Object, time.Time) []any { return []any{"v2"} }
	rules := k.Rules
	k.Rules.Deletion.Orphans = true // which is the same in all versions
	k.Also = []registry.Version{{
		Names: registry.Names{Kind: "Other", Plural: "others"}, GroupVersion: other, Rules: &rules,
		New: func() registry.Object { return &corev1.ConfigMap{} }, NewList: func() runtime.Object { return &corev1.ConfigMapList{} },
		FromStored: suffix("-out"), ToStored: suffix("-in"),
		Sub:     &registry.Subresources[registry.Object]{Resets: []string{"x"}},
		Columns: &registry.Columns[registry.Object]{Definitions: []metav1.TableColumnDefinition{registry.NameColumn()}, Cells: cells},
		Warning: "new",
	}}
	k.Warning = "old"
	for _, unserved := range []bool{false, true} {
		k.Unserved = unserved
		want := []string{"v1 ConfigMap old true false", "example.com/v2 Other new true true"}
		if unserved {
			want = want[1:]
		}
		var got []string
		for _, s := range k.Served() {
			got = append(got, fmt.Sprint(s.GroupVersion, " ", s.Names.Kind, " ", s.Warning, " ", s.Rules.Deletion.Orphans, " ", len(s.Sub.Resets) == 1 && s.Columns.Cells != nil))
		}
		if strings.Join(got, ", ") != strings.Join(want, ", ") {
			t.Errorf("served %q, want %q", got, want)
		}
		res, ok := run(t, memory.New(memory.Options{}), k).Resource(gr())
		if !ok {
			res, ok = run(t, memory.New(memory.Options{}), k).Resource(schema.GroupResource{Group: other.Group, Resource: "others"})
		}
		if !ok {
			t.Fatal("not found")
		}
		versions := res.Versions()
		if len(versions) != len(want) {
			t.Fatalf("%d versions, want %d", len(versions), len(want))
		}
		checkConversions(t, versions, res.Storage(), len(want) == 1)
	}
}

func checkConversions(t *testing.T, versions []*registry.Resource, storage *registry.Resource, unserved bool) {
	t.Helper()
	for _, v := range append([]*registry.Resource{storage}, versions...) {
		name := func(obj registry.Object, err error) string {
			if err != nil {
				t.Error(err)
			}
			return obj.GetName()
		}
		out, in := name(v.FromStored(t.Context(), config("a", ""))), name(v.ToStored(t.Context(), config("a", "")))
		switch {
		case v == storage && (out != "a" || in != "a" || v.ShowsVersion()):
			t.Errorf("the stored version: %s, %s, %t", out, in, v.ShowsVersion())
		case v != storage && (out != "a-out" || in != "a-in" || !v.ShowsVersion()):
			t.Errorf("the other version: %s, %s, %t", out, in, v.ShowsVersion())
		}
	}
	for _, v := range versions {
		if v == storage && unserved {
			t.Error("the stored version is served")
		}
	}
}

// TestManyObjects: more objects than are read at a time are all there, at the start and of a kind that is added.
func TestManyObjects(t *testing.T) {
	const n = 2001
	store := memory.New(memory.Options{})
	first := open(t, store, registry.Options{})
	for i := range n {
		put(t, first, fmt.Sprintf("c-%d", i), "")
	}
	for range 2 { // a store without a history is read at its newest state
		if _, err := store.Create(t.Context(), fmt.Sprint("/elsewhere/", time.Now().UnixNano()), nil); err != nil {
			t.Fatal(err)
		}
	}
	if got := open(t, store, registry.Options{History: 1}).Len(); got != n {
		t.Errorf("at the start: %d objects", got)
	}
	if got := install(t, run(t, store, namespaces(registry.Rules[*corev1.Namespace]{})), configMaps()).Len(); got != n {
		t.Errorf("added: %d objects", got)
	}
}

// writing selects everything, and calls a function when it is first asked.
type writing struct {
	labels.Selector
	first func()
}

func (w *writing) Matches(labels.Labels) bool {
	if first := w.first; first != nil {
		w.first = nil
		first()
	}
	return true
}

// TestListAndWatchOvertaken: a list that the history leaves behind before its watch begins is made again.
func TestListAndWatchOvertaken(t *testing.T) {
	res := open(t, memory.New(memory.Options{}), registry.Options{History: 8})
	put(t, res, "a", "1")
	s := &writing{Selector: selector(t, "!x"), first: func() {
		for i := range 40 {
			put(t, res, fmt.Sprint("b-", i), "")
		}
	}}
	l, w, err := res.ListAndWatch(t.Context(), registry.Selection{Labels: s}, "")
	if err != nil || len(l.Items) != 41 {
		t.Fatalf("%+v, %v", l, err)
	}
	put(t, res, "c", "")
	if events, err := w.Next(t.Context()); err != nil || len(events) != 1 || events[0].Item.Object.GetName() != "c" {
		t.Errorf("%v, %v", events, err)
	}
}

// TestNextBefore: a watch that was stopped waiting goes on afterwards.
func TestNextBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		res := open(t, memory.New(memory.Options{}), registry.Options{})
		w, err := res.Watch(t.Context(), registry.Selection{}, 0)
		if err != nil {
			t.Fatal(err)
		}
		for i := range 3 {
			began := time.Now()
			if events, err := w.NextBefore(t.Context(), time.After(time.Minute)); len(events) != 0 || err != nil || time.Since(began) != time.Minute {
				t.Errorf("%v, %v after %v", events, err, time.Since(began))
			}
			name := fmt.Sprint("c-", i)
			put(t, res, name, "")
			if events, err := w.NextBefore(t.Context(), time.After(time.Minute)); err != nil || len(events) != 1 || events[0].Item.Object.GetName() != name {
				t.Errorf("%v, %v", events, err)
			}
		}
	})
}

// TestVerb: guards see what a request is.
func TestVerb(t *testing.T) {
	if got := registry.Verb(t.Context()); got != "update" {
		t.Error(got)
	}
	if got := registry.Verb(registry.WithVerb(t.Context(), "patch")); got != "patch" {
		t.Error(got)
	}
}

// TestIndexWhileWritten: objects that are written while an index is made are found by it.
func TestIndexWhileWritten(t *testing.T) {
	var during func()
	k := colors(registry.Rules[*corev1.ConfigMap]{})
	inner := k.Fields
	k.Fields = func(c *corev1.ConfigMap) fields.Set {
		if f := during; f != nil && c.Name == "a-0" {
			during = nil
			f()
		}
		return inner(c)
	}
	res := openKind(t, memory.New(memory.Options{}), k.Kind(), registry.Options{})
	for i := range 200 {
		paint(t, res, "ns", fmt.Sprint("a-", i), "red", "")
	}
	during = func() {
		paint(t, res, "ns", "b", "blue", "")
		write(t, res, "a-7", "")
	}
	l, err := res.List(t.Context(), registry.ListOptions{Selection: registry.Selection{Fields: fieldSelector(t, "data.color=blue")}})
	if err != nil || during != nil {
		t.Fatal(err, during != nil)
	}
	for range 2 { // the first list may be of before
		if l, err = res.List(t.Context(), registry.ListOptions{Selection: registry.Selection{Fields: fieldSelector(t, "data.color=blue")}}); err != nil {
			t.Fatal(err)
		}
	}
	if len(l.Items) != 1 || l.Items[0].Object.GetName() != "b" {
		t.Errorf("blue: %d", len(l.Items))
	}
	if l, err = res.List(t.Context(), registry.ListOptions{Selection: registry.Selection{Fields: fieldSelector(t, "data.color=red")}}); err != nil || len(l.Items) != 199 {
		t.Errorf("red: %d, %v", len(l.Items), err)
	}
}

// TestSourceOfRemovedKind: an informer is told that its kind is not served any more.
func TestSourceOfRemovedKind(t *testing.T) {
	reg := run(t, memory.New(memory.Options{}), configMaps())
	source, err := registry.Source[*corev1.ConfigMap](reg, gr(), registry.Selection{})
	if err != nil {
		t.Fatal(err)
	}
	reg.Remove(gr())
	_, _, listing := source.List(t.Context())
	_, watching := source.Watch(t.Context(), "1")
	for _, err := range []error{listing, watching} {
		if err == nil || !strings.Contains(err.Error(), "resource configmaps is not served") {
			t.Error(err)
		}
	}
}

// TestDamaged: a stored object that becomes unreadable is gone for readers, but not for watches, until it is deleted
// without being read.
func TestDamaged(t *testing.T) {
	store := memory.New(memory.Options{})
	res := open(t, store, registry.Options{})
	put(t, res, "a", "1")
	item, err := res.Get(t.Context(), "ns", "a", "")
	if err != nil {
		t.Fatal(err)
	}
	const key = "/registry/configmaps/ns/a"
	if _, err := store.Update(t.Context(), key, []byte("k8s\x00garbage"), item.Revision); err != nil {
		t.Fatal(err)
	}
	if _, err := res.Get(t.Context(), "ns", "a", ""); !errors.Is(err, registry.ErrInternal) || res.Len() != 0 {
		t.Errorf("%v, %d objects", err, res.Len())
	}
	ignore := true
	o := registry.DeleteOptions{DeleteOptions: metav1.DeleteOptions{IgnoreStoreReadErrorWithClusterBreakingPotential: &ignore}}
	if _, _, err := res.Delete(t.Context(), "ns", "b", o); !errors.Is(err, registry.ErrNotFound) {
		t.Errorf("an unsafe delete of nothing: %v", err)
	}
	for _, dry := range []bool{true, false} {
		o.DryRun = dry
		if _, gone, err := res.Delete(t.Context(), "ns", "a", o); err != nil || !gone {
			t.Errorf("an unsafe delete: %t, %v", gone, err)
		}
		if _, err := store.Get(t.Context(), key); errors.Is(err, storage.ErrNotFound) == dry {
			t.Errorf("after a dry run (%t): %v", dry, err)
		}
	}
}
