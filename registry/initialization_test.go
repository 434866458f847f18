package registry_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/storage/memory"
)

// stages hides config maps whose data say "wait", and fails those that also have a "why".
func stages() *registry.Initialization {
	data := func(obj registry.Object) map[string]string { return obj.(*corev1.ConfigMap).Data }
	return &registry.Initialization{
		Store:   func(obj registry.Object) { delete(data(obj), "at once") },
		Pending: func(obj registry.Object) bool { return data(obj)["wait"] != "" },
		Failed: func(obj registry.Object) error {
			if why := data(obj)["why"]; why != "" {
				return errors.New(why)
			}
			return nil
		},
		Show:  func(obj registry.Object) { obj.SetAnnotations(map[string]string{"shown": "pending"}) },
		Fresh: func(schema.GroupResource) bool { return true },
	}
}

type stage struct {
	*testing.T
	*registry.Resource
}

func openStage(t *testing.T) stage {
	return stage{t, open(t, memory.New(memory.Options{}), registry.Options{Initialization: stages()})}
}

// make creates a config map, and waits only if it is asked to.
func (s stage) make(name string, data map[string]string, wait bool) error {
	_, err := s.Create(s.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: name, Labels: map[string]string{"l": "v"}}, Data: data},
		registry.CreateOptions{Waits: registry.Waits{Pending: !wait}})
	return err
}

// TestWaitsEnd: when a server ends, creates do not keep it.
func TestWaitsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reg, res := openRegistry(t, memory.New(memory.Options{}))
		s := stage{t, res}
		told := make(chan error, 1)
		go func() { told <- s.make("x", map[string]string{"wait": "1"}, true) }()
		synctest.Wait()
		reg.EndWaits()
		reg.EndWaits()
		const want = `configmaps "x": timeout: server has timed out waiting for the initialization of configmaps x`
		if err := <-told; !errors.Is(err, registry.ErrTimeout) || err.Error() != want {
			t.Error(err)
		}
		if err := s.make("y", map[string]string{"wait": "1"}, true); !errors.Is(err, registry.ErrTimeout) {
			t.Error(err)
		}
		if got := s.names(registry.ListOptions{Selection: registry.Selection{Pending: true}}); got != "x y" {
			t.Errorf("there are %s", got)
		}
	})
}

func (s stage) begin(name string) {
	s.Helper()
	if err := s.make(name, map[string]string{"wait": "yes"}, false); err != nil {
		s.Fatal(err)
	}
}

func (s stage) set(name string, data map[string]string) {
	s.Helper()
	_, _, err := s.Update(s.Context(), "a", name, func(_ context.Context, obj registry.Object) (registry.Object, error) {
		m := obj.DeepCopyObject().(*corev1.ConfigMap)
		m.Data = data
		return m, nil
	}, registry.UpdateOptions{})
	if err != nil {
		s.Fatal(err)
	}
}

// names lists what options select.
func (s stage) names(o registry.ListOptions) string {
	s.Helper()
	var all []string
	for {
		l, err := s.List(s.Context(), o)
		if err != nil {
			s.Fatal(err)
		}
		for _, i := range l.Items {
			all = append(all, i.Object.GetName())
		}
		if l.Remaining != nil {
			all = append(all, fmt.Sprint("+", *l.Remaining))
		}
		if o.Continue = l.Continue; o.Continue == "" {
			return strings.Join(all, " ")
		}
		o.ResourceVersion, o.Match = "", ""
	}
}

func TestPendingAreNotListed(t *testing.T) {
	s := openStage(t)
	for _, name := range []string{"b", "d", "f"} {
		if err := s.make(name, map[string]string{"at once": "yes"}, true); err != nil {
			t.Fatal(err)
		}
		if item, err := s.Get(t.Context(), "a", name, ""); err != nil || len(item.Object.(*corev1.ConfigMap).Data) > 0 {
			t.Errorf("%v, %v", item, err)
		}
	}
	for _, name := range []string{"a", "c", "e", "g"} {
		s.begin(name)
	}
	at := strconv.FormatInt(s.revision(), 10)
	all := registry.Selection{Pending: true}
	by := registry.Selection{Labels: labels.SelectorFromSet(labels.Set{"l": "v"})}
	for what, test := range map[string]struct {
		o    registry.ListOptions
		want string
	}{
		"all":              {registry.ListOptions{}, "b d f"},
		"any version":      {registry.ListOptions{ResourceVersion: "0"}, "b d f"},
		"pages":            {registry.ListOptions{Limit: 2}, "b d f"},
		"by label":         {registry.ListOptions{Selection: by}, "b d f"},
		"by label, pages":  {registry.ListOptions{Selection: by, Limit: 1}, "b d f"},
		"exact":            {registry.ListOptions{ResourceVersion: at, Match: metav1.ResourceVersionMatchExact}, "b d f"},
		"with pending":     {registry.ListOptions{Selection: all}, "a b c d e f g"},
		"all, in pages":    {registry.ListOptions{Selection: all, Limit: 4}, "a b c d +3 e f g"},
		"all, exact":       {registry.ListOptions{Selection: all, ResourceVersion: at, Match: metav1.ResourceVersionMatchExact}, "a b c d e f g"},
		"by name, pending": {registry.ListOptions{Selection: registry.Selection{Namespace: "a", Fields: fieldSelector(t, "metadata.name=c")}}, ""},
		"by name":          {registry.ListOptions{Selection: registry.Selection{Namespace: "a", Fields: fieldSelector(t, "metadata.name=d")}}, "d"},
	} {
		if got := s.names(test.o); got != test.want {
			t.Errorf("%s: %s, want %s", what, got, test.want)
		}
	}
	// Pages go on as it was at their revision, whatever becomes of the objects.
	first, err := s.List(t.Context(), registry.ListOptions{Limit: 1})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"a", "c", "e", "g"} {
		s.set(name, nil)
	}
	if got := s.names(registry.ListOptions{Limit: 1, Continue: first.Continue}); got != "d f" {
		t.Errorf("the second page has %s", got)
	}
	if got := s.names(registry.ListOptions{ResourceVersion: at, Match: metav1.ResourceVersionMatchExact}); got != "b d f" {
		t.Errorf("the past has %s", got)
	}
	if got := s.names(registry.ListOptions{Limit: 4}); got != "a b c d +3 e f g" {
		t.Errorf("the present has %s", got)
	}
	if got := s.names(registry.ListOptions{Selection: all, ResourceVersion: at, Match: metav1.ResourceVersionMatchExact, Limit: 4}); got != "a b c d +3 e f g" {
		t.Errorf("all of the past has %s", got)
	}
}

func (s stage) revision() int64 {
	s.Helper()
	l, err := s.List(s.Context(), registry.ListOptions{})
	if err != nil {
		s.Fatal(err)
	}
	return l.Revision
}

// TestPendingWatches: a watch sees an object from when it is complete, whenever the watch began.
func TestPendingWatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := openStage(t)
		var watches []*registry.Watch
		open := func() {
			w, err := s.Watch(t.Context(), registry.Selection{}, s.revision())
			if err != nil {
				t.Fatal(err)
			}
			watches = append(watches, w)
		}
		open()
		s.begin("x")
		open()
		s.set("x", map[string]string{"wait": "still"})
		open()
		s.begin("gone")
		if _, gone, err := s.Delete(t.Context(), "a", "gone", registry.DeleteOptions{}); err != nil || !gone {
			t.Errorf("not deleted: %v", err)
		}
		from := s.revision()
		s.set("x", map[string]string{"done": "yes"})
		after := s.revision()
		s.set("x", map[string]string{"done": "twice"})
		for i, w := range watches {
			events, err := w.Next(t.Context())
			if err != nil || len(events) != 2 || events[0].Type != informer.Added || events[1].Type != informer.Modified ||
				events[0].Item.Object.(*corev1.ConfigMap).Data["done"] != "yes" || events[0].Revision != after {
				t.Errorf("watch %d: %v, %v", i, events, err)
			}
		}
		late, err := s.Watch(t.Context(), registry.Selection{}, from)
		if err == nil {
			var events []registry.WatchEvent
			if events, err = late.Next(t.Context()); err == nil && (len(events) != 2 || events[0].Type != informer.Added) {
				t.Errorf("from before the end: %v", events)
			}
		}
		if err != nil {
			t.Error(err)
		}
		all, err := s.Watch(t.Context(), registry.Selection{Pending: true}, 1)
		if err != nil {
			t.Fatal(err)
		}
		events, err := all.Next(t.Context())
		var types []string
		for _, e := range events {
			types = append(types, string(e.Type)+" "+e.Item.Object.GetName())
		}
		if got, want := strings.Join(types, ", "), "ADDED x, MODIFIED x, ADDED gone, DELETED gone, MODIFIED x, MODIFIED x"; got != want || err != nil {
			t.Errorf("with pending: %s, %v", got, err)
		}
	})
}

func TestPendingReads(t *testing.T) {
	store := memory.New(memory.Options{})
	reg, res := openRegistry(t, store)
	s := stage{t, res}
	live, err := registry.NewLive[*corev1.ConfigMap](reg, res.GroupResource())
	if err != nil {
		t.Fatal(err)
	}
	live.AddIndex("label", func(m *corev1.ConfigMap) []string { return []string{m.Labels["l"]} })
	source, err := registry.Source[*corev1.ConfigMap](reg, res.GroupResource(), registry.Selection{})
	if err != nil {
		t.Fatal(err)
	}
	count := func() string {
		_, there := live.Get("a", "x")
		listed, _, err := source.List(t.Context())
		_, got := s.Get(t.Context(), "a", "x", "")
		hidden := s.Hidden(t.Context(), "a", "x")
		if err != nil || got != nil && !errors.Is(got, registry.ErrNotFound) {
			t.Fatal(err, got)
		}
		return fmt.Sprint(there, len(live.List("")), len(live.ByIndex("label", "v")), len(listed), got == nil, hidden == nil)
	}
	s.begin("x")
	if got := count(); got != "false 0 0 0 false false" {
		t.Errorf("pending: %s", got)
	}
	item, err := s.GetPending(t.Context(), "a", "x", "")
	if err != nil || !s.IsPending(item) || s.Decorated(item).GetAnnotations()["shown"] != "pending" || item.Object.GetAnnotations() != nil {
		t.Errorf("%v, %v", item, err)
	}
	if err := s.make("x", nil, true); !errors.Is(err, registry.ErrExists) {
		t.Errorf("created again: %v", err)
	}
	// A registry that reads the store hides it from the start.
	again, other := openRegistry(t, store)
	if _, err := other.Get(t.Context(), "a", "x", ""); !errors.Is(err, registry.ErrNotFound) || again == reg {
		t.Error(err)
	}
	if items, err := other.Pending(t.Context()); err != nil || len(items) != 1 {
		t.Errorf("%v, %v", items, err)
	}
	s.set("x", nil)
	if got := count(); got != "true 1 1 1 true true" {
		t.Errorf("complete: %s", got)
	}
	if items, err := other.Pending(t.Context()); err != nil || len(items) != 0 {
		t.Errorf("%v, %v", items, err)
	}
}

func openRegistry(t *testing.T, store *memory.Store) (*registry.Registry, *registry.Resource) {
	t.Helper()
	reg, err := registry.New(store, []registry.Kind{configMaps()}, registry.Options{Initialization: stages()})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- reg.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	if err := reg.WaitSynced(ctx); err != nil {
		t.Fatal(err)
	}
	res, _ := reg.Resource(configMaps().GroupResource())
	return reg, res
}

func TestCreatorsWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := openStage(t)
		var mu sync.Mutex
		told := map[string]error{}
		var cancel context.CancelFunc
		for _, name := range []string{"completed", "failed", "deleted", "replaced", "impatient"} {
			ctx := t.Context()
			if name == "impatient" {
				ctx, cancel = context.WithCancel(ctx)
			}
			go func() {
				item, err := s.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: name}, Data: map[string]string{"wait": "1"}}, registry.CreateOptions{})
				if err == nil {
					err = fmt.Errorf("created with %v", item.Object.(*corev1.ConfigMap).Data)
				}
				mu.Lock()
				defer mu.Unlock()
				told[name] = err
			}()
			synctest.Wait()
		}
		time.Sleep(time.Second)
		if len(told) > 0 {
			t.Fatal(told)
		}
		s.set("completed", map[string]string{"wait": "2"})
		s.set("completed", map[string]string{"n": "1"})
		s.set("completed", map[string]string{"n": "2"})
		s.set("failed", map[string]string{"wait": "2", "why": "it is too short"})
		for _, name := range []string{"deleted", "replaced"} {
			if _, _, err := s.Delete(t.Context(), "a", name, registry.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.make("replaced", nil, true); err != nil {
			t.Error(err)
		}
		cancel()
		synctest.Wait()
		for name, want := range map[string]string{
			"completed": "created with map[n:1]", "failed": "it is too short", "impatient": "context canceled",
			"deleted":  `configmaps "deleted": internal error: object deleted while waiting for creation`,
			"replaced": `configmaps "replaced": internal error: object deleted while waiting for creation`,
		} {
			if err := told[name]; err == nil || err.Error() != want {
				t.Errorf("%s: %v", name, err)
			}
		}
		if got := s.names(registry.ListOptions{Selection: registry.Selection{Pending: true}}); got != "completed impatient replaced" {
			t.Errorf("left are %s", got)
		}
	})
}

// TestCreatorsWaitBeyondHistory: many changes do not make a creator lose its object.
func TestCreatorsWaitBeyondHistory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := stage{t, open(t, memory.New(memory.Options{}), registry.Options{Initialization: stages(), History: 4})}
		told := make(chan error, 1)
		go func() { told <- s.make("x", map[string]string{"wait": "1"}, true) }()
		synctest.Wait()
		for i := range 20 { // while the creator does not run
			s.set("x", map[string]string{"wait": strconv.Itoa(i)})
		}
		s.set("x", nil)
		for i := range 20 {
			s.set("x", map[string]string{"n": strconv.Itoa(i)})
		}
		if err := <-told; err != nil {
			t.Error(err)
		}
	})
}
