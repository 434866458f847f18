package informer_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/informer/memory"
)

type object = *corev1.ConfigMap

// faulty is a source whose calls fail according to a script, and whose streams can be ended.
type faulty struct {
	inner informer.Source[object]

	mu     sync.Mutex
	script []error
	ended  chan struct{}
	reason error
}

func newFaulty(inner informer.Source[object], script []error) *faulty {
	return &faulty{inner: inner, script: script, ended: make(chan struct{})}
}

// next returns the fault of this call.
func (f *faulty) next() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.script) == 0 {
		return nil
	}
	err := f.script[0]
	f.script = f.script[1:]
	return err
}

// end makes the current streams fail.
func (f *faulty) end(reason error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.reason = reason
	close(f.ended)
	f.ended = make(chan struct{})
}

func (f *faulty) List(ctx context.Context) ([]object, string, error) {
	if err := f.next(); err != nil {
		return nil, "", err
	}
	return f.inner.List(ctx)
}

func (f *faulty) Watch(ctx context.Context, version string) (informer.Stream[object], error) {
	if err := f.next(); err != nil {
		return nil, err
	}
	s, err := f.inner.Watch(ctx, version)
	f.mu.Lock()
	defer f.mu.Unlock()
	return &faultyStream{Stream: s, source: f, ended: f.ended}, err
}

type faultyStream struct {
	informer.Stream[object]
	source *faulty
	ended  chan struct{}
}

func (s *faultyStream) Next(ctx context.Context) ([]informer.Event[object], error) {
	if err := s.source.next(); err != nil {
		return nil, err
	}
	inner, cancel := context.WithCancel(ctx)
	defer cancel()
	done := make(chan struct{})
	defer func() { cancel(); <-done }()
	go func() {
		defer close(done)
		select {
		case <-s.ended:
			cancel()
		case <-inner.Done():
		}
	}()
	events, err := s.Stream.Next(inner)
	if errors.Is(err, context.Canceled) && ctx.Err() == nil {
		s.source.mu.Lock()
		defer s.source.mu.Unlock()
		return nil, s.source.reason
	}
	if len(events) > 0 {
		last := events[len(events)-1].Version
		events = append(events, informer.Event[object]{Type: informer.Bookmark, Version: last})
	}
	return events, err
}

// replay rebuilds the state from a handler's calls, and records impossible ones.
type replay struct {
	state  map[string]object
	newest map[string]int // version last reported for each key, deleted ones too
	wrong  []string
}

func (r *replay) handler() informer.Handler[object] {
	key := func(o object) string { return o.Namespace + "/" + o.Name }
	note := func(format string, args ...any) { r.wrong = append(r.wrong, fmt.Sprintf(format, args...)) }
	forward := func(o object) {
		version, err := strconv.Atoi(o.ResourceVersion)
		if err != nil || version < r.newest[key(o)] {
			note("%s goes back from version %d to %s", key(o), r.newest[key(o)], o.ResourceVersion)
		}
		r.newest[key(o)] = version
	}
	return informer.Handler[object]{
		Added: func(o object) {
			if _, there := r.state[key(o)]; there {
				note("added %s twice", key(o))
			}
			r.state[key(o)] = o
			forward(o)
		},
		Updated: func(old, o object) {
			if r.state[key(o)] != old {
				note("update of %s from a state that was not told", key(o))
			}
			if old.ResourceVersion == o.ResourceVersion {
				note("update of %s without a change", key(o))
			}
			r.state[key(o)] = o
			forward(o)
		},
		Deleted: func(last object) {
			if _, there := r.state[key(last)]; !there {
				note("deleted %s, which was not there", key(last))
			}
			delete(r.state, key(last))
			forward(last)
		},
	}
}

// slowly is a slow handler, so that changes wait in its queue and are merged.
func (r *replay) slowly(queue int) informer.Handler[object] {
	h := r.handler()
	return informer.Handler[object]{
		Queue: queue,
		Added: func(o object) { time.Sleep(time.Second); h.Added(o) },
		Updated: func(old, o object) {
			time.Sleep(time.Second)
			h.Updated(old, o)
		},
		Deleted: func(last object) { time.Sleep(time.Second); h.Deleted(last) },
	}
}

// plan is the script of one run.
type plan struct {
	script  []error
	history int
	steps   []step
}

type step struct {
	op                     int
	namespace, name, value string
	pause                  time.Duration
	reason                 error
}

func faults() []error {
	return []error{nil, nil, nil, informer.ErrExpired, io.EOF, errors.New("no connection")}
}

func drawPlan(t *rapid.T) plan {
	steps := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) step {
		return step{
			op:        rapid.IntRange(0, 11).Draw(t, "op"),
			namespace: rapid.SampledFrom([]string{"a", "a-b", "b"}).Draw(t, "namespace"),
			name:      rapid.SampledFrom([]string{"x", "y", "z"}).Draw(t, "name"),
			value:     rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "value"),
			pause:     time.Duration(rapid.IntRange(1, 5000).Draw(t, "ms")) * time.Millisecond,
			reason:    rapid.SampledFrom(faults()[3:]).Draw(t, "reason"),
		}
	}), 0, 40)
	return plan{
		script:  rapid.SliceOfN(rapid.SampledFrom(faults()), 0, 12).Draw(t, "script"),
		history: rapid.IntRange(1, 20).Draw(t, "history"),
		steps:   steps.Draw(t, "steps"),
	}
}

// Whatever happens to the source and the connection to it, in the end the cache, its indexes, and the state that each
// handler has seen, early or late, match the source.
func TestFollowsThroughFaults(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		p := drawPlan(rt)
		var err error
		synctest.Test(t, func(t *testing.T) { err = carryOut(t.Context(), p) })
		if err != nil {
			rt.Fatal(err)
		}
	})
}

func carryOut(ctx context.Context, p plan) error {
	store := memory.New[object](memory.Options{History: p.history})
	source := newFaulty(store, p.script)
	var mutations []error
	i := informer.New(source, informer.Options{DetectMutations: func(err error) { mutations = append(mutations, err) }})
	i.AddIndex("value", func(o object) []string { return []string{o.Data["k"], "all", o.Data["k"]} })
	var handlers []*replay
	listen := func() {
		r := &replay{state: map[string]object{}, newest: map[string]int{}}
		slow := &replay{state: map[string]object{}, newest: map[string]int{}}
		handlers = append(handlers, r, slow)
		i.AddHandler(r.handler())
		i.AddHandler(slow.slowly(len(handlers)))
	}
	listen()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- i.Run(ctx) }()
	for _, s := range p.steps {
		switch {
		case s.op < 5:
			o := configMap(s.namespace, s.name, s.value)
			o.UID = "1"
			if s.op == 0 {
				o.UID = "2" // as if it had been deleted and made again
			}
			store.Put(o)
		case s.op < 8:
			store.Delete(s.namespace, s.name)
		case s.op == 8:
			store.Trim()
		case s.op == 9:
			source.end(s.reason)
		case s.op == 10:
			listen()
		case s.op == 11:
			time.Sleep(s.pause)
		}
	}
	time.Sleep(10 * time.Minute) // more than all delays that the script can cause
	synctest.Wait()
	if err := i.WaitSynced(ctx); err != nil {
		return err
	}
	cancel()
	if err := <-done; err != nil {
		return fmt.Errorf("Run: %w", err)
	}
	return errors.Join(errors.Join(mutations...), compareWithSource(i, store, handlers))
}

func compareWithSource(i *informer.Informer[object], store *memory.Store[object], handlers []*replay) error {
	want, _, err := store.List(context.Background())
	if err != nil {
		return err
	}
	var wrong []error
	note := func(format string, args ...any) { wrong = append(wrong, fmt.Errorf(format, args...)) }
	same := func(what string, got, want []object) {
		if !slices.Equal(got, want) {
			note("%s: %v, want %v", what, names(got), names(want))
		}
	}
	where := func(keep func(object) bool) []object {
		return slices.DeleteFunc(slices.Clone(want), func(o object) bool { return !keep(o) })
	}
	same("list", i.List(""), want)
	same("index", i.ByIndex("value", "all"), want)
	for _, ns := range []string{"a", "a-b", "b", "none"} {
		same("namespace "+ns, i.List(ns), where(func(o object) bool { return o.Namespace == ns }))
	}
	for _, v := range []string{"a", "b", "c", "none"} {
		same("value "+v, i.ByIndex("value", v), where(func(o object) bool { return o.Data["k"] == v }))
		for _, ns := range []string{"", "a", "a-b", "b", "none"} {
			same("value "+v+" in "+ns, i.ByIndexIn("value", v, ns), where(func(o object) bool { return o.Data["k"] == v && (ns == "" || o.Namespace == ns) }))
		}
	}
	for _, o := range want {
		if got, ok := i.Get(o.Namespace, o.Name); !ok || got != o {
			note("Get(%s, %s) = %v, %v", o.Namespace, o.Name, got, ok)
		}
	}
	for n, r := range handlers {
		if len(r.wrong) > 0 {
			note("handler %d: %q", n, r.wrong)
		}
		if len(r.state) != len(want) {
			note("handler %d knows %d objects of %d", n, len(r.state), len(want))
		}
		for _, o := range want {
			if r.state[o.Namespace+"/"+o.Name] != o {
				note("handler %d has an old %s/%s", n, o.Namespace, o.Name)
			}
		}
	}
	return errors.Join(wrong...)
}

func names(objects []object) (out []string) {
	for _, o := range objects {
		out = append(out, o.Namespace+"/"+o.Name+"@"+o.ResourceVersion)
	}
	return out
}
