package registrytest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/storage"
)

// Stores tests a registry's contract for lists and watches over a store: open returns an empty store of its
// own, and closes it with t.Cleanup. Run storagetest first.
func Stores(t *testing.T, open func(t testing.TB) storage.Store) {
	t.Helper()
	for _, check := range []struct {
		name string
		run  func(t *testing.T, store storage.Store)
	}{
		{"Model", testModel},
		{"Live", testLive},
		{"Pages", testPages},
		{"Expired", testExpired},
		{"OneOrder", testOneOrder},
		{"SlowWatch", testSlowWatch},
		{"Progress", testProgress},
		{"Future", testFuture},
		{"TwoWriters", testTwoWriters},
	} {
		t.Run(check.name, func(t *testing.T) { check.run(t, open(t)) })
	}
}

func configMaps() registry.Kind {
	return registry.Definition[*corev1.ConfigMap]{
		Names:        registry.Names{Kind: "ConfigMap", Plural: "configmaps", Singular: "configmap"},
		GroupVersion: corev1.SchemeGroupVersion, Namespaced: true,
		New:     func() *corev1.ConfigMap { return &corev1.ConfigMap{} },
		NewList: func() runtime.Object { return &corev1.ConfigMapList{} },
	}.Kind()
}

func secrets() registry.Kind {
	return registry.Definition[*corev1.Secret]{
		Names:        registry.Names{Kind: "Secret", Plural: "secrets", Singular: "secret"},
		GroupVersion: corev1.SchemeGroupVersion, Namespaced: true,
		New:     func() *corev1.Secret { return &corev1.Secret{} },
		NewList: func() runtime.Object { return &corev1.SecretList{} },
	}.Kind()
}

// server is a registry over the store under test.
type server struct {
	registry            *registry.Registry
	configMaps, secrets *registry.Resource
}

// serve runs a registry until the test ends.
func serve(t testing.TB, store storage.Store, o registry.Options) server {
	t.Helper()
	reg, err := registry.New(store, []registry.Kind{configMaps(), secrets()}, o)
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
	s := server{registry: reg}
	s.configMaps, _ = reg.Resource(schema.GroupResource{Resource: "configmaps"})
	s.secrets, _ = reg.Resource(schema.GroupResource{Resource: "secrets"})
	return s
}

func create(t testing.TB, res *registry.Resource, obj registry.Object) *registry.Item {
	t.Helper()
	item, err := res.Create(t.Context(), obj, registry.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return item
}

func configMap(name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}}
}

// testModel writes through two servers in turn; each of them, and one that is started afterwards, lists every
// state and delivers every change, with any selection.
func testModel(t *testing.T, store storage.Store) {
	r := rand.New(rand.NewPCG(7, 7))
	servers := []server{serve(t, store, registry.Options{}), serve(t, store, registry.Options{})}
	l, err := servers[0].configMaps.List(t.Context(), registry.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	m := &model{revisions: []int64{l.Revision}, states: map[int64]map[string]string{l.Revision: {}}}
	for range 200 {
		m.step(t, r, servers[r.IntN(2)].configMaps)
	}
	check := func(res *registry.Resource) {
		t.Helper()
		m.checkLists(t, r, res)
		for range 10 {
			m.checkWatch(t, r, res, registry.Selection{})
			m.checkWatch(t, r, res, registry.Selection{Namespace: "ns1"})
			m.checkWatch(t, r, res, registry.Selection{Labels: labels.SelectorFromSet(labels.Set{"tier": "front"})})
		}
	}
	check(servers[0].configMaps)
	check(servers[1].configMaps)
	if _, ok := storage.As[storage.Historian](store); ok {
		check(serve(t, store, registry.Options{}).configMaps)
	}
}

// testLive: an index over the cache shows every write as soon as it is acknowledged, even after more changes
// than the history holds.
func testLive(t *testing.T, store storage.Store) {
	s := serve(t, store, registry.Options{History: 4})
	live, err := registry.NewLive[*corev1.ConfigMap](s.registry, s.configMaps.GroupResource())
	if err != nil {
		t.Fatal(err)
	}
	live.AddIndex("tier", func(cm *corev1.ConfigMap) []string { return []string{cm.Labels["tier"]} })
	r := rand.New(rand.NewPCG(1, 2))
	m := &model{revisions: []int64{0}, states: map[int64]map[string]string{0: {}}}
	for range 50 {
		for range 1 + r.IntN(8) {
			m.step(t, r, s.configMaps)
		}
		for _, tier := range []string{"front", "back", ""} {
			got := map[string]string{}
			for _, cm := range live.ByIndex("tier", tier) {
				k, v := render(cm)
				got[k] = v
			}
			if want := m.selected(m.now(), registry.Selection{Labels: labels.SelectorFromSet(labels.Set{"tier": tier})}); !maps.Equal(got, want) {
				t.Fatalf("tier %q\n got %v\nwant %v", tier, got, want)
			}
			if all := slices.Concat(live.ByIndexIn("tier", tier, "ns0"), live.ByIndexIn("tier", tier, "ns1")); !slices.Equal(all, live.ByIndex("tier", tier)) {
				t.Fatalf("tier %q in its namespaces: %v", tier, all)
			}
		}
	}
	if got, want := len(live.List("ns1")), len(m.selected(m.now(), registry.Selection{Namespace: "ns1"})); got != want {
		t.Errorf("%d in ns1, want %d", got, want)
	}
	if _, err := registry.NewLive[*corev1.Pod](s.registry, s.configMaps.GroupResource()); err == nil {
		t.Error("a reader of pods over config maps")
	}
}

// testPages reads a paged list during writes: all pages belong to the first one's state.
func testPages(t *testing.T, store storage.Store) {
	s, other := serve(t, store, registry.Options{}), serve(t, store, registry.Options{})
	var want []string
	for n := range 40 {
		want = append(want, create(t, s.configMaps, configMap(fmt.Sprintf("c%02d", n))).Object.GetName())
	}
	o := registry.ListOptions{Limit: 7}
	var got []string
	var revision int64
	for page := 0; ; page++ {
		// The pages come from either server, as behind a load balancer.
		res := []*registry.Resource{s.configMaps, other.configMaps}[page%2]
		l, err := res.List(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		if revision == 0 {
			revision = l.Revision
		}
		if l.Revision != revision {
			t.Fatalf("page %d is of revision %d, the first of %d", page, l.Revision, revision)
		}
		for _, i := range l.Items {
			got = append(got, i.Object.GetName())
		}
		if l.Remaining != nil && int(*l.Remaining) != len(want)-len(got) {
			t.Errorf("%d are said to remain after %d of %d", *l.Remaining, len(got), len(want))
		}
		if l.Continue == "" {
			break
		}
		o.Continue = l.Continue
		create(t, other.configMaps, configMap(fmt.Sprintf("b%02d", page)))
		if _, gone, err := s.configMaps.Delete(t.Context(), "ns", fmt.Sprintf("c%02d", 39-page), registry.DeleteOptions{}); err != nil || !gone {
			t.Fatal(gone, err)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %v\nwant %v", got, want)
	}
}

// testExpired: reads from before the history fail, but a list can still be continued.
func testExpired(t *testing.T, store storage.Store) {
	s := serve(t, store, registry.Options{History: 8})
	var first *registry.Item
	for n := range 3 {
		item := create(t, s.configMaps, configMap(fmt.Sprintf("a%d", n)))
		if n == 0 {
			first = item
		}
	}
	page, err := s.configMaps.List(t.Context(), registry.ListOptions{Limit: 1})
	if err != nil {
		t.Fatal(err)
	}
	for n := range 20 {
		create(t, s.configMaps, configMap(fmt.Sprintf("b%02d", n)))
	}
	if _, err := s.configMaps.Watch(t.Context(), registry.Selection{}, first.Revision); !errors.Is(err, registry.ErrExpired) {
		t.Errorf("a watch from before the history: %v", err)
	}
	exact := registry.ListOptions{ResourceVersion: first.Object.GetResourceVersion(), Match: metav1.ResourceVersionMatchExact}
	if _, err := s.configMaps.List(t.Context(), exact); !errors.Is(err, registry.ErrExpired) {
		t.Errorf("a list from before the history: %v", err)
	}
	notOlder := registry.ListOptions{ResourceVersion: first.Object.GetResourceVersion(), Match: metav1.ResourceVersionMatchNotOlderThan}
	if l, err := s.configMaps.List(t.Context(), notOlder); err != nil || len(l.Items) != 23 {
		t.Errorf("a list not older than the history: %v, %v", l, err)
	}
	_, err = s.configMaps.List(t.Context(), registry.ListOptions{Limit: 1, Continue: page.Continue})
	gone, ok := errors.AsType[*registry.Error](err)
	if !ok || !errors.Is(err, registry.ErrExpired) || gone.Continue == "" {
		t.Fatalf("a token from before the history: %v", err)
	}
	l, err := s.configMaps.List(t.Context(), registry.ListOptions{Continue: gone.Continue})
	if err != nil || len(l.Items) != 22 {
		t.Errorf("the rest at the newest state: %v, %v", l, err)
	}
}

// testOneOrder: the revisions of all kinds are totally ordered, in the order of the writes.
func testOneOrder(t *testing.T, store storage.Store) {
	s, other := serve(t, store, registry.Options{}), serve(t, store, registry.Options{})
	l, err := s.configMaps.List(t.Context(), registry.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var written []int64
	for n := range 20 {
		written = append(written, create(t, s.configMaps, configMap(strconv.Itoa(n))).Revision)
		item := create(t, other.secrets, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: strconv.Itoa(n)}})
		written = append(written, item.Revision)
	}
	if !slices.IsSorted(written) || len(slices.Compact(slices.Clone(written))) != len(written) {
		t.Errorf("writes one after the other have the revisions %v", written)
	}
	var told []int64
	for _, res := range []*registry.Resource{other.configMaps, s.secrets} {
		told = append(told, revisions(t, res, l.Revision, 20)...)
	}
	slices.Sort(told)
	if !slices.Equal(told, written) {
		t.Errorf("delivered %v\nwritten %v", told, written)
	}
}

// revisions reads n changes from a watch, which must be in order.
func revisions(t testing.TB, res *registry.Resource, after int64, n int) []int64 {
	t.Helper()
	w, err := res.Watch(t.Context(), registry.Selection{}, after)
	if err != nil {
		t.Fatal(err)
	}
	var all []int64
	for len(all) < n {
		events, err := w.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range events {
			all = append(all, e.Revision)
		}
	}
	if !slices.IsSorted(all) {
		t.Errorf("delivered in the order %v", all)
	}
	return all
}

// testSlowWatch: a watch that is not read is cut off; others are not affected.
func testSlowWatch(t *testing.T, store storage.Store) {
	s := serve(t, store, registry.Options{History: 16})
	l, err := s.configMaps.List(t.Context(), registry.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	slow, err := s.configMaps.Watch(t.Context(), registry.Selection{}, l.Revision)
	if err != nil {
		t.Fatal(err)
	}
	quick, err := s.configMaps.Watch(t.Context(), registry.Selection{}, l.Revision)
	if err != nil {
		t.Fatal(err)
	}
	for n := range 40 {
		item := create(t, s.configMaps, configMap(strconv.Itoa(n)))
		events, err := quick.Next(t.Context())
		if err != nil || len(events) != 1 || events[0].Type != informer.Added || events[0].Revision != item.Revision {
			t.Fatalf("the quick watch: %v, %v", events, err)
		}
	}
	if _, err := slow.Next(t.Context()); !errors.Is(err, registry.ErrExpired) {
		t.Errorf("the slow watch: %v", err)
	}
}

// testProgress: a watch makes progress even when no change is selected.
func testProgress(t *testing.T, store storage.Store) {
	s, other := serve(t, store, registry.Options{}), serve(t, store, registry.Options{})
	w, err := s.configMaps.Watch(t.Context(), registry.Selection{}, 0)
	if err != nil {
		t.Fatal(err)
	}
	item := create(t, other.secrets, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a"}})
	l, err := s.configMaps.List(t.Context(), registry.ListOptions{})
	if err != nil || l.Revision < item.Revision {
		t.Fatalf("a list after a write at %d: %v, %v", item.Revision, l, err)
	}
	if revision, ok := w.Progress(); !ok || revision < item.Revision {
		t.Errorf("the watch has come to %d, %t, after a write at %d", revision, ok, item.Revision)
	}
	// Records outside the registry's kinds advance the revision, too.
	if _, err := store.Create(t.Context(), registry.Root+"unknown/x", []byte("x")); err != nil {
		t.Fatal(err)
	}
	if _, err := s.configMaps.List(t.Context(), registry.ListOptions{}); err != nil {
		t.Error(err)
	}
}

// testFuture: reads at future versions wait or fail.
func testFuture(t *testing.T, store storage.Store) {
	s := serve(t, store, registry.Options{})
	item := create(t, s.configMaps, configMap("a"))
	future := strconv.FormatInt(item.Revision+1000, 10)
	began := time.Now()
	if _, err := s.configMaps.Get(t.Context(), "ns", "a", future); !registry.FutureRevision(err) {
		t.Errorf("a read of the future: %v", err)
	}
	if time.Since(began) < time.Second {
		t.Error("a read did not wait for a future version")
	}
	if got, err := s.configMaps.Get(t.Context(), "ns", "a", item.Object.GetResourceVersion()); err != nil || got.Revision != item.Revision {
		t.Errorf("a read not older than the object: %v, %v", got, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.configMaps.Watch(ctx, registry.Selection{}, item.Revision+1000); !errors.Is(err, context.Canceled) {
		t.Errorf("a watch of the future without time: %v", err)
	}
}

// testTwoWriters increments one object from two registries on one store: no update is lost.
func testTwoWriters(t *testing.T, store storage.Store) {
	servers := []server{serve(t, store, registry.Options{}), serve(t, store, registry.Options{})}
	create(t, servers[0].configMaps, configMap("n"))
	const workers, each = 4, 25
	errs := make(chan error, 2*workers)
	for _, s := range servers {
		for range workers {
			go func() {
				var err error
				for n := 0; n < each && err == nil; n++ {
					err = count(t.Context(), s.configMaps)
				}
				errs <- err
			}()
		}
	}
	for range 2 * workers {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	for n, s := range servers {
		item, err := s.configMaps.Get(t.Context(), "ns", "n", "")
		if err != nil {
			t.Fatal(err)
		}
		if got := item.Object.(*corev1.ConfigMap).Data["n"]; got != strconv.Itoa(2*workers*each) {
			t.Errorf("server %d has counted to %s", n, got)
		}
	}
}

func count(ctx context.Context, res *registry.Resource) error {
	_, _, err := res.Update(ctx, "ns", "n", func(_ context.Context, current registry.Object) (registry.Object, error) {
		cm := current.DeepCopyObject().(*corev1.ConfigMap)
		n, _ := strconv.Atoi(cm.Data["n"])
		cm.Data = map[string]string{"n": strconv.Itoa(n + 1)}
		return cm, nil
	}, registry.UpdateOptions{})
	return err
}
