package informer_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/informer/memory"
)

// timed records when the source was listed and watched.
type timed struct {
	informer.Source[object]
	start time.Time
	calls []string
}

func (s *timed) List(ctx context.Context) ([]object, string, error) {
	s.calls = append(s.calls, fmt.Sprint("list ", time.Since(s.start)))
	return s.Source.List(ctx)
}

func (s *timed) Watch(ctx context.Context, version string) (informer.Stream[object], error) {
	s.calls = append(s.calls, fmt.Sprint("watch ", time.Since(s.start)))
	return s.Source.Watch(ctx, version)
}

func TestBackOff(t *testing.T) {
	down := errors.New("no connection")
	repeat := func(err error, n int) (out []error) {
		for range n {
			out = append(out, err)
		}
		return out
	}
	for name, test := range map[string]struct {
		script []error
		want   []string
	}{
		"list fails": {
			repeat(down, 8),
			[]string{"list 0s", "list 800ms", "list 2.4s", "list 5.6s", "list 12s", "list 24.8s", "list 50.4s", "list 1m20.4s", "list 1m50.4s", "watch 1m50.4s"},
		},
		"watch fails": {
			[]error{nil, down, down},
			[]string{"list 0s", "watch 0s", "watch 800ms", "watch 2.4s"},
		},
		"watch expires": {
			[]error{nil, informer.ErrExpired, nil, informer.ErrExpired, nil, informer.ErrExpired},
			[]string{"list 0s", "watch 0s", "list 0s", "watch 0s", "list 800ms", "watch 800ms", "list 2.4s", "watch 2.4s"},
		},
		"stream ends": {
			[]error{nil, nil, io.EOF, nil, io.EOF},
			[]string{"list 0s", "watch 0s", "watch 0s", "watch 800ms"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				source := &timed{Source: newFaulty(memory.New[object](), test.script), start: time.Now()}
				var log strings.Builder
				i := informer.New(source, informer.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
				stop := run(t, i)
				time.Sleep(time.Hour)
				stop()
				if !slices.Equal(source.calls, test.want) {
					t.Errorf("got %q, want %q", source.calls, test.want)
				}
				if failed := slices.Contains(test.script, down); failed != strings.Contains(log.String(), "no connection") {
					t.Errorf("log: %s", log.String())
				}
			})
		})
	}
}

// A quiet stream that ends regularly, as those of servers do, is reopened at once each time.
func TestQuietStreamsAreReopened(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := newFaulty(memory.New[object](), nil)
		source := &timed{Source: inner, start: time.Now()}
		stop := run(t, informer.New(source, informer.Options{}))
		for range 3 {
			time.Sleep(5 * time.Minute)
			inner.end(io.EOF)
		}
		synctest.Wait()
		stop()
		want := []string{"list 0s", "watch 0s", "watch 5m0s", "watch 10m0s", "watch 15m0s"}
		if !slices.Equal(source.calls, want) {
			t.Errorf("got %q, want %q", source.calls, want)
		}
	})
}

func TestRelistTellsTheDifference(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New[object]()
		source := newFaulty(store, nil)
		for _, name := range []string{"a", "b", "c", "d"} {
			store.Put(configMap("ns", name, "1"))
		}
		i := informer.New(source, informer.Options{DetectMutations: func(err error) { t.Error(err) }})
		var r recorder
		i.AddHandler(r.handler())
		run(t, i)
		r.expect(t, "added a 1", "added b 1", "added c 1", "added d 1")
		before, _ := i.Get("ns", "c")
		source.end(errors.New("no connection")) // watch again after 800 ms, list after 1.6 s more
		synctest.Wait()
		store.Delete("ns", "d")
		store.Put(configMap("ns", "a", "2"))
		store.Delete("ns", "b")
		again := configMap("ns", "b", "2")
		again.UID = "another"
		store.Put(again)
		store.Put(configMap("ns", "e", "1"))
		store.Trim()
		time.Sleep(3 * time.Second)
		r.expect(t, "deleted d 1", "updated a 1>2", "deleted b 1", "added b 2", "added e 1")
		if after, _ := i.Get("ns", "c"); after != before {
			t.Error("an object that did not change was replaced")
		}
	})
}

func TestObjectsAreShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New[object]()
		stored := store.Put(configMap("ns", "a", "1"))
		i := informer.New(store, informer.Options{})
		run(t, i)
		if err := i.WaitSynced(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got, ok := i.Get("ns", "a"); !ok || got != stored {
			t.Error("the cache has a copy")
		}
		if _, ok := i.Get("", "a"); ok {
			t.Error("found without its namespace")
		}
	})
}

func TestMutationsAreDetected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New[object]()
		var found []string
		i := informer.New(store, informer.Options{DetectMutations: func(err error) {
			var m *informer.MutationError
			if !errors.As(err, &m) || m.Kind != "v1.ConfigMap" || m.Namespace != "ns" {
				t.Errorf("reported %#v", err)
			}
			found = append(found, err.Error())
		}})
		stop := run(t, i)
		for _, name := range []string{"updated", "deleted", "left", "fine"} {
			store.Put(configMap("ns", name, "1"))
		}
		synctest.Wait()
		for _, name := range []string{"updated", "deleted", "left"} {
			o, _ := i.Get("ns", name)
			o.Data["k"], o.Labels = "changed", map[string]string{"new": name}
		}
		expect := func(name string) {
			t.Helper()
			synctest.Wait()
			want := "shared v1.ConfigMap ns/" + name + " was changed:\n" +
				"  data.k: \"1\" -> \"changed\"\n" +
				"  metadata.labels: (unset) -> {\"new\":\"" + name + "\"}"
			if len(found) != 1 || found[0] != want {
				t.Errorf("found %q, want %q", found, want)
			}
			found = nil
		}
		store.Put(configMap("ns", "updated", "2"))
		expect("updated")
		store.Delete("ns", "deleted")
		expect("deleted")
		store.Put(configMap("ns", "fine", "2"))
		stop()
		expect("left")
	})
}

func TestWaitSynced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New[object]()
		store.Put(configMap("ns", "a", "1"))
		source := newFaulty(store, []error{errors.New("no connection")}) // synced after 800 ms
		i := informer.New(source, informer.Options{})
		short, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		if err := i.WaitSynced(short); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("before Run: %v", err)
		}
		slow := 0
		i.AddHandler(informer.Handler[object]{Added: func(object) { time.Sleep(time.Minute); slow++ }})
		stop := run(t, i)
		start := time.Now()
		if err := i.WaitSynced(t.Context()); err != nil || slow != 1 {
			t.Errorf("returned %v before the handler had seen the list", err)
		}
		if took := time.Since(start); took != time.Minute+800*time.Millisecond {
			t.Errorf("took %v", took)
		}
		i.AddHandler(informer.Handler[object]{Added: func(object) { time.Sleep(time.Minute); slow++ }})
		if err := i.WaitSynced(t.Context()); err != nil || slow != 2 {
			t.Errorf("returned %v before the late handler had seen the list", err)
		}
		stop()
		if err := i.WaitSynced(t.Context()); err != nil {
			t.Errorf("after Run: %v", err)
		}
		if err := i.Run(t.Context()); !errors.Is(err, informer.ErrStarted) {
			t.Errorf("second Run: %v", err)
		}
		if got := i.List(""); len(got) != 1 {
			t.Errorf("%d objects after Run", len(got))
		}
	})
}

func TestStoppedBeforeSynced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := newFaulty(memory.New[object](), []error{errors.New("no connection")})
		i := informer.New(source, informer.Options{})
		waited := make(chan error, 1)
		go func() { waited <- i.WaitSynced(context.Background()) }()
		stop := run(t, i)
		synctest.Wait()
		stop()
		if err := <-waited; !errors.Is(err, informer.ErrStopped) {
			t.Errorf("WaitSynced: %v", err)
		}
	})
}

// Handlers may read the cache, add handlers, and leave functions out.
func TestHandlersMayUseTheInformer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New[object]()
		store.Put(configMap("ns", "a", "1"))
		i := informer.New(store, informer.Options{})
		var inner recorder
		added := false
		i.AddHandler(informer.Handler[object]{Added: func(o object) {
			if got, ok := i.Get(o.Namespace, o.Name); !ok || got != o {
				t.Error("told before the cache knew")
			}
			if !added {
				added = true
				i.AddHandler(inner.handler())
			}
		}})
		i.AddHandler(informer.Handler[object]{})
		run(t, i)
		if err := i.WaitSynced(t.Context()); err != nil {
			t.Fatal(err)
		}
		inner.expect(t, "added a 1")
		store.Delete("ns", "a")
		inner.expect(t, "deleted a 1")
	})
}

func TestIndexes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New[*corev1.Pod]()
		i := informer.New(store, informer.Options{})
		byNode := func(p *corev1.Pod) []string { return []string{p.Spec.NodeName} }
		i.AddIndex("node", byNode)
		i.AddIndex("node", func(*corev1.Pod) []string { return []string{"ignored"} })
		const count = 1000 // several chunks
		for n := range count {
			p := &corev1.Pod{}
			p.Namespace, p.Name = fmt.Sprint("ns", n%3), fmt.Sprint("p", (n*7919)%count)
			p.Spec.NodeName = fmt.Sprint("node", n%10)
			store.Put(p)
		}
		run(t, i)
		if err := i.WaitSynced(t.Context()); err != nil {
			t.Fatal(err)
		}
		i.AddIndex("late", byNode)
		check := func(left int) {
			t.Helper()
			synctest.Wait()
			want, _, err := store.List(t.Context())
			if err != nil || len(want) != left || !slices.Equal(i.List(""), want) {
				t.Fatalf("%d objects, want %d", len(i.List("")), left)
			}
			for n := range 10 {
				node := fmt.Sprint("node", n)
				on := slices.DeleteFunc(slices.Clone(want), func(p *corev1.Pod) bool { return p.Spec.NodeName != node })
				if !slices.Equal(i.ByIndex("node", node), on) || !slices.Equal(i.ByIndex("late", node), on) {
					t.Errorf("pods on %s", node)
				}
			}
		}
		check(count)
		for n, p := range i.List("") {
			switch n % 4 {
			case 0, 1:
				store.Delete(p.Namespace, p.Name)
			case 2:
				p = p.DeepCopy()
				p.Spec.NodeName = "node3"
				store.Put(p)
			}
		}
		check(count / 2)
		if i.ByIndex("node", "ignored") != nil || i.ByIndex("none", "x") != nil || i.ByIndex("", "ns1") != nil {
			t.Error("an index that is not there has objects")
		}
		mine := i.List("ns1")
		clear(mine)
		if i.List("ns1")[0] == nil {
			t.Error("List returned its own slice")
		}
	})
}

func TestNoGoroutineIsLeft(t *testing.T) {
	defer goleak.VerifyNone(t)
	ctx, cancel := context.WithCancel(t.Context())
	i := informer.New(memory.New[object](), informer.Options{})
	done := make(chan error)
	go func() { done <- i.Run(ctx) }()
	if err := i.WaitSynced(ctx); err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
