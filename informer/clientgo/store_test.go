package clientgo_test

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	listers "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
)

func byValue(obj any) ([]string, error) {
	o := obj.(object)
	if o.Data["k"] == "bad" {
		return nil, errors.New("no good")
	}
	return []string{o.Data["k"], "all", o.Data["k"]}, nil
}

// sorted describes the result, in no order.
func sorted(found []any, err error) string {
	out := []string{}
	for _, obj := range found {
		out = append(out, say(obj))
	}
	slices.Sort(out)
	return fmt.Sprint(out, found == nil, err)
}

// state describes the complete content of an indexer.
func (w *world) state() {
	x := w.informer.GetIndexer()
	for _, value := range []string{"1", "2", "all", "none"} {
		w.note("by "+value, "%s", sorted(x.ByIndex("value", value)))
		keys, err := x.IndexKeys("value", value)
		w.note("by "+value, "keys %q %v", keys, err)
		w.note("like "+value, "%s", sorted(x.Index("value", configMap("asked", value))))
	}
	w.note("like bad", "%s", sorted(x.Index("value", configMap("asked", "bad"))))
	values := x.ListIndexFuncValues("value")
	slices.Sort(values)
	w.note("values", "%q %q", values, x.ListIndexFuncValues("none"))
	w.note("unknown", "%s %s", sorted(x.ByIndex("none", "x")), sorted(x.Index("none", configMap("asked", ""))))
	_, err := x.IndexKeys("none", "x")
	w.note("unknown", "%v, %d indexers", err, len(x.GetIndexers()))
	for _, ns := range []string{"ns", "other", ""} {
		w.note("namespace", "%s", sorted(x.ByIndex(cache.NamespaceIndex, ns)))
		w.note("namespace", "%s", sorted(x.Index(cache.NamespaceIndex, &metav1.ObjectMeta{Namespace: ns})))
	}
	spaces := x.ListIndexFuncValues(cache.NamespaceIndex)
	slices.Sort(spaces)
	w.note("namespace", "%q", spaces)
	w.note("all", "%s", sorted(x.List(), nil))
	keys := x.ListKeys()
	slices.Sort(keys)
	w.note("all", "%q", keys)
	for _, key := range []string{"ns/a", "a", "cluster", "ns/none", "x/y/z"} {
		obj, ok, err := x.GetByKey(key)
		w.note("get", "%s %s %v %v", key, say(obj), ok, err)
	}
	for _, obj := range []any{configMap("a", ""), "no object", cache.DeletedFinalStateUnknown{Key: "ns/a"}, cache.ExplicitKey("ns/a")} {
		item, ok, err := x.Get(obj)
		w.note("get", "%T %s %v %v", obj, say(item), ok, err)
	}
}

func TestIndexer(t *testing.T) {
	indexers := cache.Indexers{"value": byValue, cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}
	play(t, 0, indexers, difference{}, func(w *world) {
		w.step("before", w.state)
		w.Put(configMap("a", "1"))
		w.Put(configMap("b", "2"))
		w.Put(configMap("c", "1"))
		elsewhere, nowhere := configMap("a", "1"), configMap("cluster", "2")
		elsewhere.Namespace, nowhere.Namespace = "other", ""
		w.Put(elsewhere)
		w.Put(nowhere)
		w.step("started", w.start)
		w.step("listed", w.state)
		w.Put(configMap("a", "2"))
		w.Delete("ns", "b")
		w.step("changed", nothing)
		w.step("changed", w.state)
		report := func(err error) { w.note("state", "%v", err) }
		report(w.informer.AddIndexers(cache.Indexers{"value": byValue}))
		report(w.informer.GetIndexer().AddIndexers(cache.Indexers{"late": byValue}))
		w.note("late", "%s", sorted(w.informer.GetIndexer().ByIndex("late", "all")))
		w.step("late index", nothing)
		w.step("stopped", w.stop)
		w.step("stopped", w.state)
	})
}

// Tests fill the stores of informers that do not run.
func TestWriting(t *testing.T) {
	indexers := cache.Indexers{"value": byValue, cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}
	play(t, 0, indexers, difference{}, func(w *world) {
		w.listen("told nothing")
		x := w.informer.GetStore()
		report := func(err error) { w.note("errors", "%v", err) }
		report(x.Add(configMap("a", "1")))
		report(x.Add(configMap("b", "1")))
		report(x.Update(configMap("c", "1")))
		report(x.Update(configMap("a", "2")))
		report(x.Delete(configMap("b", "")))
		report(x.Delete(configMap("none", "")))
		report(x.Delete(cache.DeletedFinalStateUnknown{Key: "ns/none"}))
		report(x.Delete("no object"))
		report(x.Resync())
		w.step("written", w.state)
		report(x.Replace([]any{configMap("d", "1"), configMap("a", "1")}, "7"))
		report(x.Replace([]any{"no object"}, "7"))
		w.step("replaced", w.state)
	})
}

// The two differ when an index function fails: client-go's informer panics.
func TestFailingIndexFunction(t *testing.T) {
	x := implementations()["keelson"](newSource(), 0, cache.Indexers{"value": byValue}).GetIndexer()
	if err := x.Add(configMap("a", "bad")); err != nil {
		t.Error(err)
	}
	if found, err := x.ByIndex("value", "all"); len(found) > 0 || err != nil || len(x.List()) != 1 {
		t.Errorf("found %v, %v", found, err)
	}
	defer func() {
		if recover() == nil {
			t.Error("client-go did not panic")
		}
	}()
	theirs := implementations()["client-go"](newSource(), 0, cache.Indexers{"value": byValue}).GetIndexer()
	_ = theirs.Add(configMap("a", "bad"))
}

func TestListers(t *testing.T) {
	play(t, 0, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}, difference{}, func(w *world) {
		labelled, elsewhere := configMap("labelled", "1"), configMap("a", "1")
		labelled.Labels, elsewhere.Namespace = map[string]string{"l": "v"}, "other"
		for _, o := range []object{labelled, elsewhere, configMap("a", "1")} {
			w.Put(o)
		}
		w.step("started", w.start)
		generic := cache.NewGenericLister(w.informer.GetIndexer(), corev1.Resource("configmaps"))
		typed := listers.NewConfigMapLister(w.informer.GetIndexer())
		for _, selector := range []labels.Selector{labels.Everything(), labels.Nothing(), labels.SelectorFromSet(labels.Set{"l": "v"})} {
			all, err := generic.List(selector)
			w.note("generic", "%v %v", len(all), err)
			all, err = generic.ByNamespace("ns").List(selector)
			w.note("generic", "%v %v", len(all), err)
			maps, err := typed.List(selector)
			w.note("typed", "%v %v", len(maps), err)
			maps, err = typed.ConfigMaps("ns").List(selector)
			w.note("typed", "%v %v", len(maps), err)
		}
		for _, name := range []string{"a", "none"} {
			obj, err := generic.ByNamespace("other").Get(name)
			w.note("generic", "%v %v", obj != nil, err)
			o, err := typed.ConfigMaps("other").Get(name)
			w.note("typed", "%v %v", o != nil, err)
		}
		w.step("listed", nothing)
	})
}

func TestTypedInformers(t *testing.T) {
	play(t, 0, nil, difference{}, func(w *world) {
		typed := cache.NewTypedSharedIndexInformer[object](w.informer)
		_, err := typed.AddTypedEventHandler(cache.TypedResourceEventHandlerDetailedFuncs[object]{
			AddFunc:    func(o object, initial bool) { w.note("typed", "add %s %v", say(o), initial) },
			DeleteFunc: func(o cache.DeletedObject[object]) { w.note("typed", "delete %s", o.GetKey()) },
		})
		if err != nil {
			w.Fatal(err)
		}
		if err := typed.AddTypedIndexers(cache.TypedIndexers[object]{"k": func(o object) ([]string, error) { return []string{o.Data["k"]}, nil }}); err != nil {
			w.Fatal(err)
		}
		w.step("started", w.start)
		w.Put(configMap("a", "1"))
		w.step("added", nothing)
		found, err := typed.GetTypedIndexer().ByTypedIndex("k", "1")
		w.note("found", "%d %v", len(found), err)
		w.Delete("ns", "a")
		w.step("deleted", nothing)
	})
}

// Objects of the source are returned only on request.
func TestObjectsAreCopies(t *testing.T) {
	for _, share := range []bool{false, true} {
		s := newSource()
		stored := s.Put(configMap("a", "1"))
		i := shared(t, s, share)
		got, ok, err := i.GetStore().GetByKey("ns/a")
		if err != nil || !ok || (got == any(stored)) != share {
			t.Errorf("share %v: the same object %v, %v", share, got == any(stored), err)
		}
		once, _, _ := i.GetStore().GetByKey("ns/a")
		if once != got {
			t.Error("listers get an object each")
		}
	}
}

// Everything at once, for the race detector.
func TestConcurrency(t *testing.T) {
	s := newSource()
	i := shared(t, s, false)
	var all sync.WaitGroup
	for n := range 8 {
		all.Go(func() {
			for m := range 50 {
				s.Put(configMap(fmt.Sprint(n), fmt.Sprint(m)))
				registration, err := i.AddEventHandler(cache.ResourceEventHandlerFuncs{})
				if err != nil {
					t.Error(err)
					return
				}
				_ = i.AddIndexers(cache.Indexers{fmt.Sprint(n, m%2): cache.MetaNamespaceIndexFunc})
				i.GetIndexer().List()
				_, _ = i.GetIndexer().ByIndex("0 0", "ns")
				i.LastSyncResourceVersion()
				if err := cache.ShutDownEventHandler(i, registration); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
}

func TestForeignRegistrations(t *testing.T) {
	one, other := shared(t, newSource(), true), shared(t, newSource(), true)
	registration, err := one.AddEventHandler(cache.ResourceEventHandlerFuncs{})
	if err != nil {
		t.Fatal(err)
	}
	if err := other.RemoveEventHandler(registration); err != nil || cache.IsDone(done{registration}) {
		t.Errorf("another informer removed the handler: %v", err)
	}
	if err := one.RemoveEventHandler(nil); err == nil {
		t.Error("nothing could be removed")
	}
}
