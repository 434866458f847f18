package informer_test

import (
	"slices"
	"testing"
	"testing/synctest"

	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/informer/memory"
)

// The indexes compute an object's values again when it is removed. Even if a shared object was changed meanwhile, which
// is forbidden, the index stays correct.
func TestIndexSurvivesMutations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New[object]()
		i := informer.New(store, informer.Options{})
		i.AddIndex("value", func(o object) []string { return []string{o.Data["k"]} })
		run(t, i)
		store.Put(configMap("ns", "a", "1"))
		store.Put(configMap("ns", "b", "2"))
		synctest.Wait()
		for _, name := range []string{"a", "b"} {
			o, _ := i.Get("ns", name)
			o.Data["k"] = "changed"
		}
		store.Put(configMap("ns", "a", "3"))
		store.Delete("ns", "b")
		synctest.Wait()
		values := i.IndexValues("value")
		if !slices.Equal(values, []string{"3"}) || len(i.ByIndex("value", "3")) != 1 {
			t.Errorf("values %q", values)
		}
		if !i.Indexed("value") || i.Indexed("none") || i.IndexValues("none") != nil || !slices.Equal(i.Namespaces(), []string{"ns"}) {
			t.Error("what is indexed is not right")
		}
	})
}

// Namespaces that are prefixes of others, and objects without namespace, sort by the bytes of their paths.
func TestOrderOfKeys(t *testing.T) {
	i := informer.New(memory.New[object](), informer.Options{})
	want := []string{"a", "a-b/x", "a.b/x", "a/b", "a/b.c", "a0/x", "aa/x", "b", "b/a"}
	for _, path := range []string{"aa/x", "a/b.c", "a", "a0/x", "b/a", "a-b/x", "b", "a.b/x", "a/b"} {
		namespace, name := "", path
		for n := range path {
			if path[n] == '/' {
				namespace, name = path[:n], path[n+1:]
			}
		}
		i.Put(configMap(namespace, name, ""))
	}
	var got []string
	for _, o := range i.List("") {
		path := o.Name
		if o.Namespace != "" {
			path = o.Namespace + "/" + o.Name
		}
		got = append(got, path)
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	i.Drop("a", "b")
	if _, ok := i.Get("a", "b"); ok || len(i.List("a")) != 1 {
		t.Error("not dropped")
	}
}
