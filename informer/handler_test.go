package informer_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/informer/memory"
)

// changes records what Changed receives.
type changes struct{ recorder }

func (r *changes) handler() informer.Handler[object] {
	return informer.Handler[object]{Changed: func(c informer.Change[object]) {
		said := fmt.Sprintf("%s %s %s", c.Type, c.Object.Name, c.Object.Data["k"])
		if c.Type == informer.Modified {
			said += " was " + c.Old.Data["k"]
		}
		for mark, set := range map[string]bool{" initial": c.Initial, " missed": c.Missed, " same": c.Same} {
			if set {
				said += mark
			}
		}
		r.seen = append(r.seen, said)
	}}
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func TestChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New[object]()
		source := newFaulty(store, nil)
		for _, name := range []string{"a", "b", "c"} {
			store.Put(configMap("ns", name, "1"))
		}
		var failures []string
		i := informer.New(source, informer.Options{OnError: func(err error) {
			var failure *informer.SourceError
			if !errors.As(err, &failure) {
				t.Errorf("told %v", err)
			}
			failures = append(failures, err.Error())
		}})
		var early, late changes
		i.AddHandler(early.handler())
		if i.Started() || i.LastVersion() != "" {
			t.Error("started before Run")
		}
		stop := run(t, i)
		early.expect(t, "ADDED a 1 initial", "ADDED b 1 initial", "ADDED c 1 initial")
		if got := i.LastVersion(); got != "4" || !i.Started() || !closed(i.Synced()) {
			t.Errorf("at version %s after the list", got)
		}
		store.Put(configMap("ns", "d", "1"))
		store.Put(configMap("ns", "a", "2"))
		early.expect(t, "ADDED d 1", "MODIFIED a 2 was 1")
		source.end(informer.ErrExpired)
		store.Delete("ns", "b")
		again := configMap("ns", "c", "2")
		again.UID = "another"
		store.Put(again)
		store.Trim()
		early.expect(t, "DELETED b 1 missed", "MODIFIED a 2 was 2 same", "MODIFIED c 2 was 1", "MODIFIED d 1 was 1 same")
		i.AddHandler(late.handler())
		late.expect(t, "ADDED a 2 initial", "ADDED c 2 initial", "ADDED d 1 initial")
		store.Delete("ns", "a")
		late.expect(t, "DELETED a 2")
		if got := i.LastVersion(); got != "9" {
			t.Errorf("at version %s in the end", got)
		}
		stop()
		if !i.IsStopped() || !slices.Equal(failures, []string{"watch: resource version expired"}) {
			t.Errorf("stopped %v, failures %q", i.IsStopped(), failures)
		}
	})
}

func TestRemovedHandlers(t *testing.T) {
	for name, queue := range map[string]int{"in the informer's goroutine": 0, "with a queue": 3} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := memory.New[object]()
				store.Put(configMap("ns", "a", "1"))
				i := informer.New(store, informer.Options{})
				add := func(r *recorder) *informer.Registration {
					h := r.handler()
					h.Queue = queue
					return i.AddHandler(h)
				}
				var never, once, stays, itself, after recorder
				early := add(&never)
				early.Remove()
				if !closed(early.Done()) {
					t.Error("a handler removed before Run is not done")
				}
				first, second := add(&once), add(&stays)
				var own *informer.Registration
				own = i.AddHandler(informer.Handler[object]{Queue: queue, Added: func(o object) {
					itself.handler().Added(o)
					own.Remove()
				}})
				stop := run(t, i)
				synctest.Wait()
				if !closed(first.Synced()) || closed(early.Synced()) || closed(first.Done()) {
					t.Error("what is synced is not right")
				}
				once.expect(t, "added a 1")
				first.Remove()
				first.Remove()
				<-first.Done()
				<-own.Done()
				store.Put(configMap("ns", "b", "1"))
				once.expect(t)
				never.expect(t)
				itself.expect(t, "added a 1")
				stays.expect(t, "added a 1", "added b 1")
				if closed(second.Done()) {
					t.Error("done before the end")
				}
				stop()
				if last := add(&after); !closed(second.Done()) || !closed(last.Done()) || closed(last.Synced()) {
					t.Error("a handler is not done after the end")
				}
				second.Remove()
			})
		})
	}
}

// A hanging handler with a queue delays no other, and its queue is bounded.
func TestSlowHandlerWithQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New[object]()
		i := informer.New(store, informer.Options{})
		gate := make(chan struct{})
		var quick recorder
		var slow changes
		inner := slow.handler()
		i.AddHandler(quick.handler())
		registration := i.AddHandler(informer.Handler[object]{Queue: 3, Changed: func(c informer.Change[object]) {
			<-gate
			inner.Changed(c)
		}})
		run(t, i)
		synctest.Wait()
		if !closed(registration.Synced()) {
			t.Error("not synced after an empty list")
		}
		var want []string
		store.Put(configMap("ns", "hangs", "1"))
		synctest.Wait() // now the handler has it
		for n := range 100 {
			store.Put(configMap("ns", "a", fmt.Sprint(n)))
			store.Put(configMap("ns", "gone", fmt.Sprint(n)))
			store.Delete("ns", "gone")
			store.Put(configMap("ns", "b", fmt.Sprint(n)))
			if n > 0 {
				want = append(want, fmt.Sprintf("updated a %d>%d", n-1, n))
			} else {
				want = append(want, "added hangs 1", "added a 0")
			}
			want = append(want, fmt.Sprint("added gone ", n), fmt.Sprint("deleted gone ", n))
			if n > 0 {
				want = append(want, fmt.Sprintf("updated b %d>%d", n-1, n))
			} else {
				want = append(want, "added b 0")
			}
			synctest.Wait()
		}
		store.Delete("ns", "hangs")
		quick.expect(t, append(want, "deleted hangs 1")...)
		slow.expect(t)
		close(gate)
		slow.expect(t, "ADDED hangs 1", "ADDED a 99", "ADDED gone 0", "DELETED gone 0", "ADDED b 99", "DELETED hangs 1")
		store.Put(configMap("ns", "a", "100"))
		slow.expect(t, "MODIFIED a 100 was 99")
	})
}

func TestResync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New[object]()
		store.Put(configMap("ns", "a", "1"))
		store.Put(configMap("ns", "b", "1"))
		i := informer.New(store, informer.Options{})
		start := time.Now()
		var mu sync.Mutex
		var seen []string
		listen := func(name string, h informer.Handler[object]) *informer.Registration {
			h.Updated = func(old, o object) {
				mu.Lock()
				defer mu.Unlock()
				if old != o {
					name += "!"
				}
				seen = append(seen, fmt.Sprint(name, " ", o.Name, " ", time.Since(start)))
			}
			return i.AddHandler(h)
		}
		listen("never", informer.Handler[object]{})
		ten := listen("ten", informer.Handler[object]{Resync: 10 * time.Second})
		listen("queued", informer.Handler[object]{Resync: 15 * time.Second, Queue: 10})
		run(t, i)
		time.Sleep(31 * time.Second)
		ten.Remove()
		time.Sleep(20 * time.Second)
		synctest.Wait()
		slices.Sort(seen) // two goroutines wrote
		want := []string{
			"queued a 15s", "queued a 30s", "queued a 45s", "queued b 15s", "queued b 30s", "queued b 45s",
			"ten a 10s", "ten a 20s", "ten a 30s", "ten b 10s", "ten b 20s", "ten b 30s",
		}
		if !slices.Equal(seen, want) {
			t.Errorf("got %q, want %q", seen, want)
		}
	})
}

func TestTransform(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New[object]()
		store.Put(configMap("ns", "a", "1"))
		var failed []string
		bad := errors.New("no good")
		source := informer.Transform(store, func(o object) (object, error) {
			if o.Data["k"] == "bad" {
				return nil, bad
			}
			o = o.DeepCopy()
			o.Data["k"] += "!"
			return o, nil
		}, func(o object, err error) {
			if !errors.Is(err, bad) {
				t.Errorf("told %v", err)
			}
			failed = append(failed, o.Name)
		})
		var listErrors []string
		i := informer.New(source, informer.Options{OnError: func(err error) { listErrors = append(listErrors, err.Error()) }})
		var r recorder
		i.AddHandler(r.handler())
		stop := run(t, i)
		synctest.Wait()
		store.Put(configMap("ns", "b", "bad"))
		store.Put(configMap("ns", "a", "2"))
		store.Delete("ns", "a")
		r.expect(t, "added a 1!", "updated a 1!>2!", "deleted a 2!")
		if !slices.Equal(failed, []string{"b"}) || i.LastVersion() != "5" {
			t.Errorf("failed %q, at version %s", failed, i.LastVersion())
		}
		stop()
		i = informer.New(source, informer.Options{OnError: func(err error) { listErrors = append(listErrors, err.Error()) }})
		run(t, i)
		time.Sleep(time.Second)
		store.Put(configMap("ns", "b", "good"))
		if err := i.WaitSynced(t.Context()); err != nil || strings.Join(listErrors, "; ") != "list: transform ns/b: no good; list: transform ns/b: no good" {
			t.Errorf("%v, %q", err, listErrors)
		}
	})
}

// eacher is a Source that lists objects one by one.
type eacher struct{ *memory.Store[object] }

func (e eacher) List(context.Context) ([]object, string, error) { return nil, "", io.ErrUnexpectedEOF }

func (e eacher) ListEach(ctx context.Context, sink informer.Sink[object]) (string, error) {
	if err := sink.Take(informer.Event[object]{Type: informer.Added, Object: configMap("ns", "forgotten", "1")}); err != nil {
		return "", err
	}
	sink.Reset()
	items, version, err := e.Store.List(ctx)
	slices.Reverse(items) // in any order
	for _, o := range items {
		for _, kind := range []informer.EventType{informer.Added, informer.Deleted, informer.Modified, informer.Modified} {
			if err := sink.Take(informer.Event[object]{Type: kind, Object: o}); err != nil {
				return "", err
			}
		}
	}
	return version, err
}

func TestTransformOneByOne(t *testing.T) {
	source := eacher{memory.New[object]()}
	source.Put(configMap("ns", "b", "1"))
	source.Put(configMap("ns", "a", "1"))
	cut := informer.Transform(source, func(o object) (object, error) {
		if o.Name == "bad" {
			return o, io.ErrNoProgress
		}
		return configMap(o.Namespace, o.Name, ""), nil
	}, nil)
	items, version, err := cut.List(t.Context())
	if err != nil || version != "3" || !slices.Equal(names(items), []string{"ns/a@", "ns/b@"}) {
		t.Errorf("%v at %s: %v", names(items), version, err)
	}
	source.Put(configMap("ns", "bad", "1"))
	if items, _, err := cut.List(t.Context()); !errors.Is(err, io.ErrNoProgress) || items != nil {
		t.Errorf("%v: %v", names(items), err)
	}
}

func TestMetadata(t *testing.T) {
	store := memory.New[object]()
	o := configMap("ns", "a", "1")
	o.Labels = map[string]string{"l": "v"}
	store.Put(o)
	source := informer.Metadata(store)
	items, version, err := source.List(t.Context())
	if err != nil || len(items) != 1 || items[0].Labels["l"] != "v" || items[0].ResourceVersion != version {
		t.Fatalf("%v at %s: %v", items, version, err)
	}
	stream, err := informer.Metadata(source).Watch(t.Context(), version)
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	store.Delete("ns", "a")
	events, err := stream.Next(t.Context())
	if err != nil || len(events) != 1 || events[0].Type != informer.Deleted || events[0].Object.Name != "a" {
		t.Errorf("%v: %v", events, err)
	}
}
