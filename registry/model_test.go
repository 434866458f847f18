package registry_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-dev/keelson/informer"
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

// model is what the registry should be: the state after every revision.
type model struct {
	revisions []int64
	states    map[int64]map[string]string // revision → key → "value@revision tier"
}

func (m *model) now() map[string]string { return m.states[m.revisions[len(m.revisions)-1]] }

func (m *model) put(revision int64, key, value string) {
	next := maps.Clone(m.now())
	if value == "" {
		delete(next, key)
	} else {
		next[key] = value
	}
	m.revisions = append(m.revisions, revision)
	m.states[revision] = next
}

func render(o registry.Object) (key, value string) {
	cm := o.(*corev1.ConfigMap)
	return cm.Namespace + "/" + cm.Name, cm.Data["v"] + "@" + cm.ResourceVersion + " " + cm.Labels["tier"]
}

func renderAll(items []*registry.Item) map[string]string {
	all := map[string]string{}
	for _, i := range items {
		k, v := render(i.Object)
		all[k] = v
	}
	return all
}

// step makes one random write and tells the model.
func (m *model) step(t *testing.T, r *rand.Rand, res *registry.Resource) {
	t.Helper()
	ctx := t.Context()
	ns, name := fmt.Sprintf("ns%d", r.IntN(2)), fmt.Sprintf("c%d", r.IntN(12))
	key := ns + "/" + name
	_, there := m.now()[key]
	tier := []string{"front", "back", ""}[r.IntN(3)]
	value := strconv.Itoa(r.IntN(1000))
	var item *registry.Item
	var err error
	switch {
	case !there:
		item, err = res.Create(ctx, &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name, Labels: map[string]string{"tier": tier}},
			Data:       map[string]string{"v": value},
		}, registry.CreateOptions{})
	case r.IntN(3) == 0:
		if _, gone, err := res.Delete(ctx, ns, name, registry.DeleteOptions{}); err != nil || !gone {
			t.Fatalf("delete %s: gone %t, %v", key, gone, err)
		}
		l, err := res.List(ctx, registry.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		m.put(l.Revision, key, "")
		return
	default:
		item, _, err = res.Update(ctx, ns, name, func(_ context.Context, current registry.Object) (registry.Object, error) {
			cm := current.DeepCopyObject().(*corev1.ConfigMap)
			cm.Data, cm.Labels = map[string]string{"v": value + "'"}, map[string]string{"tier": tier}
			return cm, nil
		}, registry.UpdateOptions{})
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, known := m.states[item.Revision]; known {
		return // an update that changed nothing
	}
	_, rendered := render(item.Object)
	m.put(item.Revision, key, rendered)
}

func TestAgainstModel(t *testing.T) {
	for seed := range uint64(30) {
		t.Run(strconv.Itoa(int(seed)), func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 7))
			store := memory.New(memory.Options{})
			res := open(t, store, registry.Options{Identifiers: registry.Seeded(seed)})
			l, err := res.List(t.Context(), registry.ListOptions{})
			if err != nil {
				t.Fatal(err)
			}
			m := &model{revisions: []int64{l.Revision}, states: map[int64]map[string]string{l.Revision: {}}}
			for range 150 {
				m.step(t, r, res)
			}
			m.checkLists(t, r, res)
			for range 20 {
				m.checkWatch(t, r, res, registry.Selection{})
				m.checkWatch(t, r, res, registry.Selection{Namespace: "ns1"})
				m.checkWatch(t, r, res, registry.Selection{Labels: labels.SelectorFromSet(labels.Set{"tier": "front"})})
			}
		})
	}
}

func (m *model) checkLists(t *testing.T, r *rand.Rand, res *registry.Resource) {
	t.Helper()
	ctx := t.Context()
	for _, revision := range m.revisions {
		o := registry.ListOptions{ResourceVersion: strconv.FormatInt(revision, 10), Match: metav1.ResourceVersionMatchExact}
		if r.IntN(2) == 0 {
			o.Limit = 1 + r.Int64N(4)
		}
		got := map[string]string{}
		var last string
		for {
			l, err := res.List(ctx, o)
			if err != nil {
				t.Fatal(err)
			}
			if l.Revision != revision {
				t.Fatalf("page at revision %d of a list at %d", l.Revision, revision)
			}
			for _, i := range l.Items {
				k, v := render(i.Object)
				if k <= last {
					t.Fatalf("%s after %s", k, last)
				}
				last = k
				got[k] = v
			}
			if l.Remaining != nil && int(*l.Remaining)+len(got) != len(m.states[revision]) {
				t.Errorf("at %d: %d told, %d remaining, %d in all", revision, len(got), *l.Remaining, len(m.states[revision]))
			}
			if l.Continue == "" {
				break
			}
			o = registry.ListOptions{Limit: o.Limit, Continue: l.Continue}
		}
		if !maps.Equal(got, m.states[revision]) {
			t.Fatalf("list at %d\n got %v\nwant %v", revision, got, m.states[revision])
		}
	}
	for _, tier := range []string{"front", "back"} {
		l, err := res.List(ctx, registry.ListOptions{Selection: registry.Selection{Labels: labels.SelectorFromSet(labels.Set{"tier": tier})}})
		if err != nil {
			t.Fatal(err)
		}
		want := m.selected(m.now(), registry.Selection{Labels: labels.SelectorFromSet(labels.Set{"tier": tier})})
		if got := renderAll(l.Items); !maps.Equal(got, want) {
			t.Errorf("tier %s\n got %v\nwant %v", tier, got, want)
		}
	}
}

func (m *model) selected(state map[string]string, s registry.Selection) map[string]string {
	out := map[string]string{}
	for k, v := range state {
		if s.Namespace != "" && !strings.HasPrefix(k, s.Namespace+"/") {
			continue
		}
		if s.Labels != nil && !s.Labels.Matches(labels.Set{"tier": v[strings.Index(v, " ")+1:]}) {
			continue
		}
		out[k] = v
	}
	return out
}

// checkWatch follows a watch from a random revision and compares the state it adds up to after
// every revision.
func (m *model) checkWatch(t *testing.T, r *rand.Rand, res *registry.Resource, s registry.Selection) {
	t.Helper()
	at := r.IntN(len(m.revisions) - 1)
	state := m.selected(m.states[m.revisions[at]], s)
	w, err := res.Watch(t.Context(), s, m.revisions[at])
	if err != nil {
		t.Fatal(err)
	}
	last := m.revisions[len(m.revisions)-1]
	told := m.revisions[at]
	for {
		if revision, ok := w.Progress(); ok && revision >= last {
			break
		}
		ctx, cancel := context.WithCancel(t.Context())
		if told >= m.lastChange(s) {
			cancel()
		}
		events, err := w.Next(ctx)
		cancel()
		if err != nil {
			if errors.Is(err, context.Canceled) && told >= m.lastChange(s) {
				break
			}
			t.Fatal(err)
		}
		for _, e := range events {
			if e.Revision <= told {
				t.Fatalf("revision %d told after %d", e.Revision, told)
			}
			told = e.Revision
			k, v := render(e.Item.Object)
			_, had := state[k]
			if had != (e.Type != informer.Added) {
				t.Fatalf("%s of %s at %d, which was there: %t", e.Type, k, e.Revision, had)
			}
			if e.Type == informer.Deleted {
				delete(state, k)
			} else {
				state[k] = v
			}
			if want := m.selected(m.states[e.Revision], s); !maps.Equal(state, want) {
				t.Fatalf("after %d\n got %v\nwant %v", e.Revision, state, want)
			}
		}
	}
	if want := m.selected(m.now(), s); !maps.Equal(state, want) {
		t.Fatalf("at the end\n got %v\nwant %v", state, want)
	}
}

// lastChange is the last revision at which the selected state differs from the one before.
func (m *model) lastChange(s registry.Selection) int64 {
	for i := len(m.revisions) - 1; i > 0; i-- {
		if !maps.Equal(m.selected(m.states[m.revisions[i]], s), m.selected(m.states[m.revisions[i-1]], s)) {
			return m.revisions[i]
		}
	}
	return m.revisions[0]
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
		t.Errorf("a read at a revision that is not there: %v", err)
	}
}

// TestExpiredContinue goes on with the token that comes with the error, at the newest state.
func TestExpiredContinue(t *testing.T) {
	store := memory.New(memory.Options{})
	res := open(t, store, registry.Options{History: 4})
	create := func(name string) {
		t.Helper()
		if _, err := res.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: name}}, registry.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"a", "b", "c"} {
		create(name)
	}
	o := registry.ListOptions{Selection: registry.Selection{Namespace: "a"}, Limit: 1}
	l, err := res.List(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 6 {
		create(fmt.Sprintf("d%d", i))
	}
	o.Continue = l.Continue
	_, err = res.List(t.Context(), o)
	var refused *registry.Error
	if !errors.As(err, &refused) || !errors.Is(err, registry.ErrExpired) || refused.Continue == "" {
		t.Fatalf("expired token: %v", err)
	}
	o.Continue, o.Limit = refused.Continue, 0
	l, err = res.List(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if len(l.Items) != 8 || l.Items[0].Object.GetName() != "b" {
		t.Errorf("the rest has %d items", len(l.Items))
	}
}

func TestReopen(t *testing.T) {
	store := memory.New(memory.Options{})
	before := open(t, store, registry.Options{})
	item, err := before.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "x"}, Data: map[string]string{"k": "v"}}, registry.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	// A second registry on the same store is another server: it sees the first one's writes.
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

// TestTwoWriters counts up one object from two registries on one store: no update is lost.
func TestTwoWriters(t *testing.T) {
	store := memory.New(memory.Options{})
	resources := []*registry.Resource{open(t, store, registry.Options{}), open(t, store, registry.Options{})}
	if _, err := resources[0].Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "n"}, Data: map[string]string{"n": "0"}}, registry.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	const workers, each = 4, 50
	errs := make(chan error, 2*workers)
	for _, res := range resources {
		for range workers {
			go func() {
				for range each {
					_, _, err := res.Update(t.Context(), "a", "n", func(_ context.Context, current registry.Object) (registry.Object, error) {
						cm := current.DeepCopyObject().(*corev1.ConfigMap)
						n, _ := strconv.Atoi(cm.Data["n"])
						cm.Data["n"] = strconv.Itoa(n + 1)
						return cm, nil
					}, registry.UpdateOptions{})
					if err != nil {
						errs <- err
						return
					}
				}
				errs <- nil
			}()
		}
	}
	for range 2 * workers {
		if err := <-errs; err != nil {
			t.Fatal(err)
		}
	}
	item, err := resources[1].Get(t.Context(), "a", "n", "")
	if err != nil {
		t.Fatal(err)
	}
	if n := item.Object.(*corev1.ConfigMap).Data["n"]; n != strconv.Itoa(2*workers*each) {
		t.Errorf("counted to %s", n)
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

// TestLive: an index over the cache shows every write as soon as it is acknowledged, also when
// more happened than the history keeps.
func TestLive(t *testing.T) {
	store := memory.New(memory.Options{})
	reg, err := registry.New(store, []registry.Kind{configMaps()}, registry.Options{History: 4})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- reg.Run(ctx) }()
	defer func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}()
	if err := reg.WaitSynced(ctx); err != nil {
		t.Fatal(err)
	}
	gr := schema.GroupResource{Resource: "configmaps"}
	res, _ := reg.Resource(gr)
	live, err := registry.NewLive[*corev1.ConfigMap](reg, gr)
	if err != nil {
		t.Fatal(err)
	}
	live.AddIndex("tier", func(cm *corev1.ConfigMap) []string { return []string{cm.Labels["tier"]} })
	r := rand.New(rand.NewPCG(1, 2))
	m := &model{revisions: []int64{0}, states: map[int64]map[string]string{0: {}}}
	for range 200 {
		for range 1 + r.IntN(8) {
			m.step(t, r, res)
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
		}
	}
	if got, want := len(live.List("ns1")), len(m.selected(m.now(), registry.Selection{Namespace: "ns1"})); got != want {
		t.Errorf("%d in ns1, want %d", got, want)
	}
	if _, err := registry.NewLive[*corev1.Pod](reg, gr); err == nil {
		t.Error("a reader of pods over config maps")
	}
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
