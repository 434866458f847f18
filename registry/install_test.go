package registry_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/storage"
	"github.com/keelson-dev/keelson/storage/memory"
)

// run runs a registry until the test ends.
func run(t testing.TB, store storage.Store, kinds ...registry.Kind) *registry.Registry {
	t.Helper()
	reg, err := registry.New(store, kinds, registry.Options{})
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
	return reg
}

func install(t testing.TB, reg *registry.Registry, k registry.Kind) *registry.Resource {
	t.Helper()
	res, err := reg.Install(t.Context(), k)
	if err != nil {
		t.Fatal(err)
	}
	return res
}

func configMap(name, value string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}, Data: map[string]string{"k": value}}
}

func put(t testing.TB, res *registry.Resource, name, value string) {
	t.Helper()
	if _, err := res.Create(t.Context(), configMap(name, value), registry.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// values are the values of the ConfigMaps by name.
func values(t testing.TB, res *registry.Resource) map[string]string {
	t.Helper()
	l, err := res.List(t.Context(), registry.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, item := range l.Items {
		all[item.Object.GetName()] = item.Object.(*corev1.ConfigMap).Data["k"]
	}
	return all
}

func gr() schema.GroupResource { return schema.GroupResource{Resource: "configmaps"} }

func TestInstall(t *testing.T) {
	store := memory.New(memory.Options{})
	put(t, open(t, store, registry.Options{}), "old", "1") // by another server
	reg := run(t, store)
	if _, served := reg.Resource(gr()); served || len(reg.Resources()) != 0 {
		t.Fatal("served before it is installed")
	}
	res := install(t, reg, configMaps())
	if again, _ := reg.Resource(gr()); again != res || len(reg.Resources()) != 1 {
		t.Error("not served after it was installed")
	}
	l, w, err := res.ListAndWatch(t.Context(), registry.Selection{}, "")
	if err != nil || len(l.Items) != 1 || l.Items[0].Object.GetName() != "old" {
		t.Fatalf("list: %v, %v", l, err)
	}
	put(t, res, "new", "2")
	events, err := w.Next(t.Context())
	if err != nil || len(events) != 1 || events[0].Type != informer.Added || events[0].Item.Object.GetName() != "new" {
		t.Errorf("watch: %v, %v", events, err)
	}
	if _, err := res.Watch(t.Context(), registry.Selection{}, l.Revision-1); !errors.Is(err, registry.ErrExpired) {
		t.Errorf("a watch from before the kind was read: %v", err)
	}
}

func TestInstallBeforeRun(t *testing.T) {
	store := memory.New(memory.Options{})
	put(t, open(t, store, registry.Options{}), "old", "1")
	reg, err := registry.New(store, nil, registry.Options{})
	if err != nil {
		t.Fatal(err)
	}
	res := install(t, reg, configMaps())
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = reg.Run(ctx) })
	defer running.Wait()
	defer cancel()
	if err := reg.WaitSynced(ctx); err != nil {
		t.Fatal(err)
	}
	if got := values(t, res); !maps.Equal(got, map[string]string{"old": "1"}) {
		t.Errorf("objects: %v", got)
	}
}

// marked is ConfigMaps whose default is another value.
func marked(value string) registry.Kind {
	k := configMaps()
	k.Rules.Default = func(obj registry.Object) {
		if c := obj.(*corev1.ConfigMap); c.Data["k"] == "" {
			c.Data = map[string]string{"k": value}
		}
	}
	return k
}

func TestReplace(t *testing.T) { synctest.Test(t, testReplace) }

func testReplace(t *testing.T) {
	secrets := registry.Definition[*corev1.Secret]{
		Names: registry.Names{Kind: "Secret", Plural: "secrets", Singular: "secret"}, GroupVersion: corev1.SchemeGroupVersion, Namespaced: true,
		New: func() *corev1.Secret { return &corev1.Secret{} }, NewList: func() runtime.Object { return &corev1.SecretList{} },
	}.Kind()
	reg := run(t, memory.New(memory.Options{}), configMaps(), secrets)
	old, _ := reg.Resource(gr())
	put(t, old, "a", "")
	w, err := old.Watch(t.Context(), registry.Selection{}, 0)
	if err != nil {
		t.Fatal(err)
	}
	idle := make(chan error, 1)
	go func() {
		_, err := w.Next(context.Background())
		idle <- err
	}()
	synctest.Wait()
	res := install(t, reg, marked("default"))
	if err := <-idle; !errors.Is(err, io.EOF) {
		t.Errorf("a watch of the replaced kind ended with %v", err)
	}
	if _, err := w.Next(t.Context()); !errors.Is(err, io.EOF) {
		t.Errorf("and then with %v", err)
	}
	if got := values(t, res); got["a"] != "default" {
		t.Errorf("the objects are read by the old rules: %v", got)
	}
	if _, err := old.Create(t.Context(), configMap("b", ""), registry.CreateOptions{}); !errors.Is(err, registry.ErrNotFound) {
		t.Errorf("a create of the replaced kind: %v", err)
	}
	if _, _, err := old.Update(t.Context(), "ns", "a", func(context.Context, registry.Object) (registry.Object, error) {
		return configMap("a", "changed"), nil
	}, registry.UpdateOptions{}); !errors.Is(err, registry.ErrNotFound) {
		t.Errorf("an update of the replaced kind: %v", err)
	}
	if _, _, err := old.Delete(t.Context(), "ns", "a", registry.DeleteOptions{}); !errors.Is(err, registry.ErrNotFound) {
		t.Errorf("a delete of the replaced kind: %v", err)
	}
	if _, err := old.List(t.Context(), registry.ListOptions{}); !errors.Is(err, registry.ErrNotFound) {
		t.Errorf("a list of the replaced kind: %v", err)
	}
	if all := reg.Resources(); len(all) != 2 || all[0] != res || all[1].Plural != "secrets" {
		t.Errorf("the order changed: %v", all)
	}
	put(t, res, "c", "own")
	if got := values(t, res); !maps.Equal(got, map[string]string{"a": "default", "c": "own"}) {
		t.Errorf("objects: %v", got)
	}
}

// An informer in the same process follows a kind that is replaced, and waits for one that is gone.
func TestInformerOfReplacedKind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reg := run(t, memory.New(memory.Options{}), configMaps())
		old, _ := reg.Resource(gr())
		put(t, old, "a", "")
		source, err := registry.Source[*corev1.ConfigMap](reg, gr(), registry.Selection{})
		if err != nil {
			t.Fatal(err)
		}
		follower := informer.New(source, informer.Options{})
		ctx, cancel := context.WithCancel(t.Context())
		var following sync.WaitGroup
		following.Go(func() { _ = follower.Run(ctx) })
		defer following.Wait()
		defer cancel()
		check := func(name, want string) {
			t.Helper()
			time.Sleep(time.Hour)
			if got, _ := follower.Get("ns", name); got == nil || got.Data["k"] != want {
				t.Errorf("the informer has %v, not %s", got, want)
			}
		}
		check("a", "")
		res := install(t, reg, marked("default"))
		put(t, res, "b", "1")
		check("b", "1")
		reg.Remove(gr())
		time.Sleep(time.Hour)
		put(t, install(t, reg, configMaps()), "c", "2")
		check("c", "2")
	})
}

func TestRemove(t *testing.T) {
	reg := run(t, memory.New(memory.Options{}), configMaps())
	old, _ := reg.Resource(gr())
	put(t, old, "a", "1")
	w, err := old.Watch(t.Context(), registry.Selection{}, 0)
	if err != nil {
		t.Fatal(err)
	}
	if !reg.Remove(gr()) || reg.Remove(gr()) {
		t.Error("a kind is removed once")
	}
	if _, err := w.Next(t.Context()); !errors.Is(err, io.EOF) {
		t.Errorf("its watch ended with %v", err)
	}
	if _, served := reg.Resource(gr()); served || len(reg.Resources()) != 0 {
		t.Error("it is still served")
	}
	if _, err := old.Create(t.Context(), configMap("b", "1"), registry.CreateOptions{}); !errors.Is(err, registry.ErrNotFound) {
		t.Errorf("a create: %v", err)
	}
	if got := values(t, install(t, reg, configMaps())); !maps.Equal(got, map[string]string{"a": "1"}) {
		t.Errorf("after it was installed again: %v", got)
	}
}

// failingLists is a store whose lists fail on demand.
type failingLists struct {
	storage.Store
	err error
}

func (f *failingLists) List(ctx context.Context, prefix string, o storage.ListOptions) (storage.Page, error) {
	if f.err != nil {
		return storage.Page{}, f.err
	}
	return f.Store.List(ctx, prefix, o)
}

func TestInstallFails(t *testing.T) {
	store := &failingLists{Store: memory.New(memory.Options{})}
	reg := run(t, store, configMaps())
	before, _ := reg.Resource(gr())
	store.err = errors.New("disk on fire")
	if _, err := reg.Install(t.Context(), marked("x")); !errors.Is(err, store.err) || !strings.Contains(err.Error(), "configmaps") {
		t.Errorf("a store that fails: %v", err)
	}
	store.err = nil
	other := configMaps()
	other.Plural = "others"
	for name, k := range map[string]registry.Kind{"no name": {}, "the same prefix": other} {
		if _, err := reg.Install(t.Context(), k); err == nil {
			t.Errorf("%s: installed", name)
		}
	}
	if after, _ := reg.Resource(gr()); after != before || len(reg.Resources()) != 1 {
		t.Error("a failed install changed what is served")
	}
	put(t, before, "a", "1")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := reg.Install(ctx, configMaps()); !errors.Is(err, context.Canceled) {
		t.Errorf("a caller that is gone: %v", err)
	}
}

// hooked is a store that calls a function after its lists, and whose streams can be held up.
type hooked struct {
	storage.Store
	listed func()
	held   sync.Mutex // while it is locked, no changes come
}

func (h *hooked) List(ctx context.Context, prefix string, o storage.ListOptions) (storage.Page, error) {
	page, err := h.Store.List(ctx, prefix, o)
	if h.listed != nil {
		h.listed()
	}
	return page, err
}

func (h *hooked) Watch(ctx context.Context, prefix string, after int64) (storage.Stream, error) {
	s, err := h.Store.Watch(ctx, prefix, after)
	return heldStream{s, h}, err
}

type heldStream struct {
	storage.Stream
	store *hooked
}

func (s heldStream) Next(ctx context.Context) ([]storage.Event, error) {
	events, err := s.Stream.Next(ctx)
	s.store.held.Lock()
	defer s.store.held.Unlock()
	return events, err
}

// What others write after the objects were listed and before they are served is neither lost nor served twice.
func TestChangesWhileInstalling(t *testing.T) {
	memory := memory.New(memory.Options{})
	writer := open(t, memory, registry.Options{})
	for _, name := range []string{"changed", "deleted", "same"} {
		put(t, writer, name, "1")
	}
	store := &hooked{Store: memory}
	other := configMaps()
	other.Plural, other.Prefix = "others", "others"
	reg := run(t, store, other)
	bystander, _ := reg.Resource(schema.GroupResource{Resource: "others"})
	store.listed = func() {
		put(t, writer, "new", "1")
		write(t, writer, "changed", "2")
		if _, _, err := writer.Delete(t.Context(), "ns", "deleted", registry.DeleteOptions{}); err != nil {
			t.Error(err)
		}
		values(t, bystander) // waits until the registry has seen all of it
	}
	res := install(t, reg, configMaps())
	if got, want := values(t, res), values(t, writer); len(want) != 3 || !maps.Equal(got, want) {
		t.Errorf("objects: %v, not %v", got, want)
	}
}

// Changes that were in the list already come later: they are no events.
func TestLateChangesWhileInstalling(t *testing.T) {
	memory := memory.New(memory.Options{})
	writer := open(t, memory, registry.Options{})
	store := &hooked{Store: memory}
	reg := run(t, store)
	store.held.Lock()
	put(t, writer, "a", "1")
	write(t, writer, "a", "2")
	installed := make(chan struct{})
	go func() {
		defer close(installed)
		install(t, reg, configMaps())
	}()
	var res *registry.Resource
	for served := false; !served; {
		res, served = reg.Resource(gr())
	}
	w, err := res.Watch(t.Context(), registry.Selection{}, 0)
	if err != nil {
		t.Fatal(err)
	}
	select {
	case <-installed:
		t.Error("installed before the registry shows what the resource has")
	default:
	}
	store.held.Unlock()
	<-installed
	put(t, writer, "b", "1")
	events, err := w.Next(t.Context())
	if err != nil || len(events) != 1 || events[0].Item.Object.GetName() != "b" {
		t.Errorf("events: %v, %v", events, err)
	}
}

// write changes a ConfigMap.
func write(t testing.TB, res *registry.Resource, name, value string) {
	t.Helper()
	_, _, err := res.Update(t.Context(), "ns", name, func(context.Context, registry.Object) (registry.Object, error) {
		return configMap(name, value), nil
	}, registry.UpdateOptions{Create: true})
	if err != nil {
		t.Error(err)
	}
}

// TestInstallUnderLoad installs and replaces a kind while another server creates, updates and deletes objects: whatever is read
// from then on, by lists or by watches, is what the other server has.
func TestInstallUnderLoad(t *testing.T) {
	store := memory.New(memory.Options{})
	writer := open(t, store, registry.Options{})
	reg := run(t, store)
	ctx, cancel := context.WithCancel(t.Context())
	var writing sync.WaitGroup
	written := make(chan struct{}, 20)
	writing.Go(func() {
		random := rand.New(rand.NewPCG(1, 1))
		for n := 0; ctx.Err() == nil; n++ {
			select {
			case written <- struct{}{}:
			default:
			}
			name, value := fmt.Sprint(random.IntN(50)), fmt.Sprint(n)
			switch random.IntN(3) {
			case 0:
				_, _, _ = writer.Delete(ctx, "ns", name, registry.DeleteOptions{}) // it may not exist
			default:
				_, _, err := writer.Update(ctx, "ns", name, func(context.Context, registry.Object) (registry.Object, error) {
					return configMap(name, value), nil
				}, registry.UpdateOptions{Create: true})
				if err != nil && ctx.Err() == nil {
					t.Error(err)
				}
			}
		}
	})
	type reader struct {
		seen  map[string]string
		watch *registry.Watch
	}
	var last reader
	for range 50 {
		for range cap(written) {
			<-written
		}
		res := install(t, reg, configMaps())
		l, w, err := res.ListAndWatch(t.Context(), registry.Selection{}, "")
		if err != nil {
			t.Fatal(err)
		}
		last = reader{map[string]string{}, w}
		for _, item := range l.Items {
			last.seen[item.Object.GetName()] = item.Object.(*corev1.ConfigMap).Data["k"]
		}
	}
	cancel()
	writing.Wait()
	res, _ := reg.Resource(gr())
	want := values(t, writer)
	if got := values(t, res); len(want) == 0 || !maps.Equal(got, want) {
		t.Errorf("listed %v, not %v", got, want)
	}
	for at, _ := last.watch.Progress(); at < reg.Revision() || !maps.Equal(last.seen, want); {
		events, err := last.watch.Next(t.Context())
		if err != nil {
			t.Fatalf("watched %v, not %v: %v", last.seen, want, err)
		}
		for _, e := range events {
			at = e.Revision
			last.seen[e.Item.Object.GetName()] = e.Item.Object.(*corev1.ConfigMap).Data["k"]
			if e.Type == informer.Deleted {
				delete(last.seen, e.Item.Object.GetName())
			}
		}
	}
}

// creating calls before ahead of each create.
type creating struct {
	storage.Store
	before func()
}

func (c *creating) Create(ctx context.Context, key string, value []byte) (int64, error) {
	c.before()
	return c.Store.Create(ctx, key, value)
}

// TestWriteWhileReplaced: what the old kind wrote as it was being replaced is read by the rules of the new one.
func TestWriteWhileReplaced(t *testing.T) {
	store := &creating{Store: memory.New(memory.Options{}), before: func() {}}
	reg := run(t, store, marked("old"))
	old, _ := reg.Resource(gr())
	var res *registry.Resource
	store.before = func() { res = install(t, reg, marked("new")) }
	put(t, old, "a", "")
	if got := values(t, res); got["a"] != "new" {
		t.Errorf("read as %q", got)
	}
}
