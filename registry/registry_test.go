package registry_test

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/storage"
	"github.com/keelson-dev/keelson/storage/memory"
)

func configMaps() registry.Kind {
	return registry.Definition[*corev1.ConfigMap]{
		Names:        registry.Names{Kind: "ConfigMap", Plural: "configmaps", Singular: "configmap"},
		GroupVersion: corev1.SchemeGroupVersion, Namespaced: true,
		New:     func() *corev1.ConfigMap { return &corev1.ConfigMap{} },
		NewList: func() runtime.Object { return &corev1.ConfigMapList{} },
	}.Kind()
}

// open runs a registry of ConfigMaps over a store and returns them.
func open(t testing.TB, store storage.Store, o registry.Options) *registry.Resource {
	t.Helper()
	return openKind(t, store, configMaps(), o)
}

// openKind is open with a variant of the kind.
func openKind(t testing.TB, store storage.Store, kind registry.Kind, o registry.Options) *registry.Resource {
	t.Helper()
	reg, err := registry.New(store, []registry.Kind{kind}, o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- reg.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	if err := reg.WaitSynced(ctx); err != nil {
		t.Fatal(err)
	}
	res, _ := reg.Resource(schema.GroupResource{Resource: "configmaps"})
	return res
}

func TestHistoryIsBounded(t *testing.T) { synctest.Test(t, testHistoryIsBounded) }

func testHistoryIsBounded(t *testing.T) {
	store := memory.New(memory.Options{})
	res := open(t, store, registry.Options{History: 8})
	first, err := res.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "first"}}, registry.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	slow, err := res.Watch(t.Context(), registry.Selection{}, first.Revision)
	if err != nil {
		t.Fatal(err)
	}
	page, err := res.List(t.Context(), registry.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for i := range 20 {
		item, err := res.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "a", GenerateName: "c"}}, registry.CreateOptions{})
		if err != nil {
			t.Fatalf("%d: %v", i, err)
		}
		names = append(names, item.Object.GetName())
	}
	if slices.Sort(names); len(slices.Compact(names)) != 20 {
		t.Errorf("names: %v", names)
	}
	if _, err := slow.Next(t.Context()); !errors.Is(err, registry.ErrExpired) {
		t.Errorf("a watch that fell behind: %v", err)
	}
	if _, err := res.Watch(t.Context(), registry.Selection{}, first.Revision); !errors.Is(err, registry.ErrExpired) {
		t.Errorf("a watch from before the history: %v", err)
	}
	_, err = res.List(t.Context(), registry.ListOptions{ResourceVersion: strconv.FormatInt(page.Revision, 10), Match: metav1.ResourceVersionMatchExact})
	if !errors.Is(err, registry.ErrExpired) {
		t.Errorf("a list at a revision before the history: %v", err)
	}
	if _, err := res.Get(t.Context(), "a", "first", "999999"); !registry.FutureRevision(err) {
		t.Errorf("a read at a revision that does not exist: %v", err)
	}
}

func TestReopen(t *testing.T) {
	store := memory.New(memory.Options{})
	before := open(t, store, registry.Options{})
	item, err := before.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "x"}, Data: map[string]string{"k": "v"}}, registry.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	// A second registry on the same store acts as another server: it sees the first one's writes.
	after := open(t, store, registry.Options{})
	got, err := after.Get(t.Context(), "a", "x", "")
	if err != nil {
		t.Fatal(err)
	}
	if cm := got.Object.(*corev1.ConfigMap); got.Revision != item.Revision || cm.Data["k"] != "v" || cm.UID != item.Object.GetUID() {
		t.Errorf("read back: %+v", cm)
	}
	if _, err := before.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "y"}}, registry.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := after.Get(t.Context(), "a", "y", ""); err != nil {
		t.Errorf("a write through the other registry: %v", err)
	}
}

func FuzzDecodeContinue(f *testing.F) {
	f.Add("eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MTIsInN0YXJ0IjoiYS9iXHUwMDAwIn0")
	f.Add("zzz")
	f.Add("")
	f.Fuzz(func(t *testing.T, token string) {
		from, revision, err := registry.DecodeContinue(token)
		if err == nil && (from == "" || revision == 0 || strings.HasPrefix(from, "/") || strings.Contains("/"+from+"/", "/../")) {
			t.Errorf("token %q leads to %q at %d", token, from, revision)
		}
	})
}

func TestFinalizerNames(t *testing.T) {
	res := open(t, memory.New(memory.Options{}), registry.Options{})
	_, err := res.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Namespace: "a", Name: "x", Finalizers: []string{"example.com/hold", "orphan", "hold"},
	}}, registry.CreateOptions{})
	var refused *registry.Error
	if !errors.As(err, &refused) || len(refused.Fields) != 1 ||
		refused.Fields[0].Error() != `metadata.finalizers[2]: Invalid value: "hold": name is neither a standard finalizer name nor is it fully qualified` {
		t.Errorf("an unqualified finalizer: %v", err)
	}
}
