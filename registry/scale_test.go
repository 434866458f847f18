package registry_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/storage/memory"
)

// counting counts how many objects are looked at.
type counting struct {
	labels.Selector
	seen *atomic.Int64
}

func (c counting) Matches(l labels.Labels) bool {
	c.seen.Add(1)
	return c.Selector.Matches(l)
}

type countingFields struct {
	fields.Selector
	seen *atomic.Int64
}

func (c countingFields) Matches(f fields.Fields) bool {
	c.seen.Add(1)
	return c.Selector.Matches(f)
}

func selector(t *testing.T, text string) labels.Selector {
	t.Helper()
	s, err := labels.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func create(t *testing.T, res *registry.Resource, namespace, name string, l map[string]string) {
	t.Helper()
	_, err := res.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: l}}, registry.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

// TestListExaminesFew: the number of objects that a list examines does not grow with the number of objects.
func TestListExaminesFew(t *testing.T) {
	res := open(t, memory.New(memory.Options{}), registry.Options{})
	for n := range 2000 {
		create(t, res, fmt.Sprintf("n%03d", n/20), fmt.Sprintf("c%04d", n), map[string]string{
			"app": strconv.Itoa(n % 200), "tier": strconv.Itoa(n % 2), "pair": strconv.Itoa(n % 1000), "zone": strconv.Itoa(n % 200),
		})
	}
	for _, test := range []struct {
		name, labels, namespace string
		limit                   int64
		want, most              int
	}{
		{name: "label", labels: "app=7", want: 10},
		{name: "label with ==", labels: "app==7", want: 10},
		{name: "set of one", labels: "app in (7)", want: 10},
		{name: "label in a namespace", labels: "tier=1", namespace: "n050", want: 10},
		{name: "page", labels: "app=7", limit: 4, want: 4},
		{name: "two labels", labels: "tier=1,app=7", want: 10, most: 10},
		{name: "the other order", labels: "pair=7,tier=1", want: 2, most: 2},
		{name: "the narrower last", labels: "tier=1,zone=7", want: 10, most: 10},
		{name: "label and more", labels: "app=7,pair!=7", want: 8, most: 10},
		{name: "none", labels: "app=nothing", want: 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			var seen atomic.Int64
			o := registry.ListOptions{Limit: test.limit, Selection: registry.Selection{
				Namespace: test.namespace, Labels: counting{selector(t, test.labels), &seen},
			}}
			l, err := res.List(t.Context(), o)
			if err != nil || len(l.Items) != test.want {
				t.Fatalf("%d objects, %v; want %d", len(l.Items), err, test.want)
			}
			if n := int(seen.Load()); n > test.most {
				t.Errorf("%d objects examined, want at most %d", n, test.most)
			}
		})
	}
}

// TestPagesWhileWritten: all pages of a list are of one state, whatever is selected and written meanwhile, and
// the remaining count is right.
func TestPagesWhileWritten(t *testing.T) {
	for seed := range uint64(6) {
		random := rand.New(rand.NewPCG(seed, 7))
		res := open(t, memory.New(memory.Options{}), registry.Options{})
		now := map[string]map[string]string{}
		write := func() {
			namespace, name := "n"+strconv.Itoa(random.IntN(4)), "c"+strconv.Itoa(random.IntN(60))
			key := namespace + "/" + name
			l := map[string]string{"a": strconv.Itoa(random.IntN(3)), "b": strconv.Itoa(random.IntN(3))}
			_, there := now[key]
			switch {
			case !there:
				create(t, res, namespace, name, l)
			case random.IntN(3) == 0:
				if _, _, err := res.Delete(t.Context(), namespace, name, registry.DeleteOptions{}); err != nil {
					t.Fatal(err)
				}
				delete(now, key)
				return
			default:
				_, _, err := res.Update(t.Context(), namespace, name, func(_ context.Context, current registry.Object) (registry.Object, error) {
					obj := current.DeepCopyObject().(registry.Object)
					obj.SetLabels(l)
					return obj, nil
				}, registry.UpdateOptions{})
				if err != nil {
					t.Fatal(err)
				}
			}
			now[key] = l
		}
		for range 150 {
			write()
		}
		for range 40 {
			o := registry.ListOptions{Limit: int64(1 + random.IntN(30))}
			if random.IntN(2) == 0 {
				o.Namespace = "n" + strconv.Itoa(random.IntN(4))
			}
			o.Labels = selector(t, []string{"", "a=1", "a=1,b=2", "b!=1", "a in (0,2)", "c=1"}[random.IntN(6)])
			var want []string
			for _, key := range slices.Sorted(maps.Keys(now)) {
				if (o.Namespace == "" || key[:2] == o.Namespace) && o.Labels.Matches(labels.Set(now[key])) {
					want = append(want, key)
				}
			}
			var got []string
			for {
				l, err := res.List(t.Context(), o)
				if err != nil {
					t.Fatalf("seed %d: %v", seed, err)
				}
				for _, i := range l.Items {
					got = append(got, i.Object.GetNamespace()+"/"+i.Object.GetName())
				}
				if o.Labels.Empty() && l.Continue != "" && (l.Remaining == nil || int(*l.Remaining) != len(want)-len(got)) {
					t.Fatalf("seed %d: %v remain, want %d", seed, l.Remaining, len(want)-len(got))
				}
				if o.Continue = l.Continue; o.Continue == "" {
					break
				}
				for range random.IntN(4) {
					write()
				}
			}
			if !slices.Equal(got, want) {
				t.Fatalf("seed %d: %+v: got %v, want %v", seed, o, got, want)
			}
		}
	}
}

// TestWakesConcernedWatches: a change wakes only the watches that it may concern, and the others do not fall
// behind the history.
func TestWakesConcernedWatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reg, err := registry.New(memory.New(memory.Options{}), []registry.Kind{configMaps()}, registry.Options{History: 32})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- reg.Run(ctx) }()
		if err := reg.WaitSynced(ctx); err != nil {
			t.Fatal(err)
		}
		res, _ := reg.Resource(schema.GroupResource{Resource: "configmaps"})
		const many = 300
		var looked atomic.Int64
		var readers sync.WaitGroup
		told := make([]atomic.Int64, many)
		for n := range many {
			s := registry.Selection{Labels: counting{selector(t, "node="+strconv.Itoa(n)), &looked}}
			if n%2 == 0 {
				s = registry.Selection{Namespace: "n", Fields: countingFields{fields.OneTermEqualSelector("metadata.name", "c"+strconv.Itoa(n)), &looked}}
			}
			w, err := res.Watch(ctx, s, 0)
			if err != nil {
				t.Fatal(err)
			}
			readers.Go(func() {
				for {
					short, end := context.WithTimeout(ctx, time.Duration(n+1)*time.Second)
					events, err := w.Next(short)
					end()
					if ctx.Err() != nil {
						return
					}
					if err != nil && !errors.Is(err, context.DeadlineExceeded) {
						t.Errorf("watch %d: %v", n, err)
						return
					}
					told[n].Add(int64(len(events)))
				}
			})
		}
		synctest.Wait()
		for n := range 200 { // more than the history holds
			create(t, res, "n", "c"+strconv.Itoa(1000+n), map[string]string{"node": "none"})
		}
		synctest.Wait()
		if n := looked.Load(); n != 0 {
			t.Errorf("%d objects were examined by watches that they do not concern", n)
		}
		create(t, res, "n", "c10", map[string]string{"node": "11"})
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		if n := looked.Load(); n != 2 {
			t.Errorf("%d examinations of one object that concerns two watches", n)
		}
		for n := range told {
			if got, want := told[n].Load(), int64(0); n == 10 || n == 11 {
				if got != 1 {
					t.Errorf("watch %d got %d changes, want 1", n, got)
				}
			} else if got != want {
				t.Errorf("watch %d got %d changes", n, got)
			}
		}
		cancel()
		readers.Wait()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// TestRandomWatches: many watches with different selections, interrupted at random, each converge to the
// current state.
func TestRandomWatches(t *testing.T) {
	res := open(t, memory.New(memory.Options{}), registry.Options{})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	sorts := []registry.Selection{
		{}, {Namespace: "n1"}, {Labels: selector(t, "a=1")}, {Labels: selector(t, "a=1,b=1")}, {Labels: selector(t, "a!=1")},
		{Namespace: "n0", Fields: fields.OneTermEqualSelector("metadata.name", "c3")},
	}
	var final atomic.Int64
	var readers sync.WaitGroup
	states := make([]map[string]string, 20*len(sorts))
	for n := range states {
		s := sorts[n%len(sorts)]
		l, w, err := res.ListAndWatch(ctx, s, "")
		if err != nil || len(l.Items) != 0 {
			t.Fatal(l, err)
		}
		states[n] = map[string]string{}
		random := rand.New(rand.NewPCG(uint64(n), 3))
		readers.Go(func() {
			for {
				short, stop := context.WithTimeout(ctx, time.Duration(random.IntN(2000))*time.Microsecond)
				events, err := w.Next(short)
				stop()
				if err != nil && !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("%+v: %v", s, err)
					return
				}
				for _, e := range events {
					key := e.Item.Object.GetNamespace() + "/" + e.Item.Object.GetName()
					_, there := states[n][key]
					if there == (e.Type == informer.Added) {
						t.Errorf("%+v: %s of %s, which was there: %v", s, e.Type, key, there)
					}
					if states[n][key] = e.Item.Object.GetResourceVersion(); e.Type == informer.Deleted {
						delete(states[n], key)
					}
				}
				end := final.Load()
				if revision, ok := w.Progress(); ok && end > 0 && revision >= end {
					return
				}
			}
		})
	}
	random := rand.New(rand.NewPCG(1, 1))
	for range 1500 {
		namespace, name := "n"+strconv.Itoa(random.IntN(3)), "c"+strconv.Itoa(random.IntN(8))
		l := map[string]string{"a": strconv.Itoa(random.IntN(2)), "b": strconv.Itoa(random.IntN(2))}
		_, _, err := res.Update(ctx, namespace, name, func(_ context.Context, current registry.Object) (registry.Object, error) {
			return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: l}}, nil
		}, registry.UpdateOptions{Create: true})
		if err != nil {
			t.Fatal(err)
		}
		if random.IntN(3) == 0 {
			if _, _, err := res.Delete(ctx, namespace, name, registry.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
		}
	}
	l, err := res.List(ctx, registry.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	final.Store(l.Revision)
	readers.Wait()
	for n := range states {
		s := sorts[n%len(sorts)]
		l, err := res.List(ctx, registry.ListOptions{Selection: s})
		if err != nil {
			t.Fatal(err)
		}
		want := map[string]string{}
		for _, i := range l.Items {
			want[i.Object.GetNamespace()+"/"+i.Object.GetName()] = i.Object.GetResourceVersion()
		}
		if !maps.Equal(states[n], want) {
			t.Errorf("%+v: converged to %v, want %v", s, states[n], want)
		}
	}
}
