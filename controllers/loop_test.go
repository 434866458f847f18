package controllers_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/keelson-dev/keelson/controllers"
)

// recorder is a controller that does what it is told and notes when it was called.
type recorder struct {
	keys      []controllers.Key // enqueued by Watch
	synced    []controllers.Synced
	reconcile func(ctx context.Context, key controllers.Key, nth int) (controllers.Result, error)
	retry     controllers.Retry

	mu    sync.Mutex
	queue controllers.Queue
	start time.Time
	calls []string
	count map[controllers.Key]int
}

func (r *recorder) Name() string             { return "recorder" }
func (r *recorder) Retry() controllers.Retry { return r.retry }

func (r *recorder) Watch(q controllers.Queue) []controllers.Synced {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.queue, r.start, r.count = q, time.Now(), map[controllers.Key]int{}
	for _, key := range r.keys {
		q.Add(key)
	}
	return r.synced
}

// to is the queue, once there is one.
func (r *recorder) to() controllers.Queue {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.queue
}

func (r *recorder) Reconcile(ctx context.Context, key controllers.Key) (controllers.Result, error) {
	r.mu.Lock()
	r.count[key]++
	n := r.count[key]
	r.calls = append(r.calls, fmt.Sprintf("%v %s", time.Since(r.start), key))
	r.mu.Unlock()
	if r.reconcile == nil {
		return controllers.Result{}, nil
	}
	return r.reconcile(ctx, key, n)
}

type syncedFunc func(ctx context.Context) error

func (f syncedFunc) WaitSynced(ctx context.Context) error { return f(ctx) }

// run runs the loop of r in a bubble for a while and returns the calls.
func run(t *testing.T, r *recorder, o controllers.Options, d time.Duration, meanwhile func()) []string {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), d)
		defer cancel()
		if meanwhile != nil {
			go meanwhile()
		}
		if err := controllers.NewLoop(r, o).Run(ctx); err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	return r.calls
}

func wantCalls(t *testing.T, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("calls:\n got %q\nwant %q", got, want)
	}
}

func TestBackoffDoublesPerKey(t *testing.T) {
	failed := errors.New("no")
	r := &recorder{keys: []controllers.Key{{Name: "bad"}, {Name: "good"}}}
	r.reconcile = func(_ context.Context, key controllers.Key, n int) (controllers.Result, error) {
		if key.Name == "bad" && n < 5 {
			return controllers.Result{}, failed
		}
		return controllers.Result{}, nil
	}
	got := run(t, r, controllers.Options{}, time.Minute, nil)
	wantCalls(t, got, "0s bad", "0s good", "5ms bad", "15ms bad", "35ms bad", "75ms bad")
}

func TestBackoffIsCappedAndGivesUp(t *testing.T) {
	r := &recorder{keys: []controllers.Key{{Name: "bad"}}, retry: controllers.Retry{Limit: 4}}
	r.reconcile = func(context.Context, controllers.Key, int) (controllers.Result, error) {
		return controllers.Result{}, errors.New("no")
	}
	got := run(t, r, controllers.Options{Retry: controllers.Retry{First: time.Second, Max: 3 * time.Second}}, time.Hour, func() {
		time.Sleep(time.Minute)
		r.to().Add(controllers.Key{Name: "bad"}) // a change gives it another round
	})
	wantCalls(t, got, "0s bad", "1s bad", "3s bad", "6s bad", "9s bad", "1m0s bad", "1m1s bad", "1m3s bad", "1m6s bad", "1m9s bad")
}

func TestRetriesAreLimitedTogether(t *testing.T) {
	r := &recorder{}
	for i := range 150 {
		r.keys = append(r.keys, controllers.Key{Name: fmt.Sprint(i)})
	}
	r.reconcile = func(_ context.Context, _ controllers.Key, n int) (controllers.Result, error) {
		if n == 1 {
			return controllers.Result{}, errors.New("no")
		}
		return controllers.Result{}, nil
	}
	got := run(t, r, controllers.Options{}, time.Minute, nil)
	if last := got[len(got)-1]; len(got) != 300 || last != "5s 149" {
		t.Errorf("%d calls, the last %q; want 300, the last after the burst of 100 and 50 at ten a second", len(got), last)
	}
}

func TestRequeueAfterAndEarlierWins(t *testing.T) {
	key := controllers.Key{Namespace: "ns", Name: "a"}
	r := &recorder{keys: []controllers.Key{key}}
	r.reconcile = func(_ context.Context, _ controllers.Key, n int) (controllers.Result, error) {
		if n == 1 {
			return controllers.Result{RequeueAfter: time.Minute}, nil
		}
		return controllers.Result{}, nil
	}
	got := run(t, r, controllers.Options{}, time.Hour, func() {
		time.Sleep(time.Second)
		r.to().AddAfter(key, 2*time.Minute) // later than what is planned
		r.to().AddAfter(key, 10*time.Second)
		r.to().AddAfter(key, 20*time.Second)
	})
	wantCalls(t, got, "0s ns/a", "11s ns/a")
}

func TestBatch(t *testing.T) {
	r := &recorder{keys: []controllers.Key{{Name: "b"}, {Namespace: "ns", Name: "a"}, {Name: "c"}, {Name: "a"}}}
	got := run(t, r, controllers.Options{Batch: time.Second, Offset: 200 * time.Millisecond}, time.Minute, func() {
		time.Sleep(10500 * time.Millisecond)
		r.to().Add(controllers.Key{Name: "z"})
		time.Sleep(500 * time.Millisecond)
		r.to().Add(controllers.Key{Name: "z"})
		r.to().AddAfter(controllers.Key{Name: "y"}, 0)
		time.Sleep(201 * time.Millisecond)
		r.to().Add(controllers.Key{Name: "y"})
	})
	wantCalls(t, got, "200ms a", "200ms b", "200ms c", "200ms ns/a", "11.2s y", "11.2s z", "12.2s y")
}

func TestBatchKeepsWhatIsForLater(t *testing.T) {
	r := &recorder{}
	got := run(t, r, controllers.Options{Batch: time.Second}, time.Minute, func() {
		time.Sleep(100 * time.Millisecond)
		r.to().AddAfter(controllers.Key{Name: "a"}, 10*time.Second)
		r.to().Add(controllers.Key{Name: "a"})
	})
	wantCalls(t, got, "1s a", "11s a")
}

func TestKeyIsNeverReconciledTwiceAtOnce(t *testing.T) {
	key := controllers.Key{Name: "a"}
	r := &recorder{keys: []controllers.Key{key}}
	r.reconcile = func(context.Context, controllers.Key, int) (controllers.Result, error) {
		time.Sleep(10 * time.Second)
		return controllers.Result{}, nil
	}
	got := run(t, r, controllers.Options{Workers: 3}, time.Minute, func() {
		for range 3 {
			time.Sleep(time.Second)
			r.to().Add(key) // while it is being worked on: once more, afterwards
			r.to().Add(controllers.Key{Name: "b"})
		}
	})
	wantCalls(t, got, "0s a", "1s b", "10s a", "11s b")
}

func TestRunWaitsForCaches(t *testing.T) {
	late := syncedFunc(func(ctx context.Context) error { time.Sleep(time.Second); return nil })
	r := &recorder{keys: []controllers.Key{{Name: "a"}}, synced: []controllers.Synced{late}}
	wantCalls(t, run(t, r, controllers.Options{}, time.Minute, nil), "1s a")

	broken := errors.New("broken")
	r = &recorder{synced: []controllers.Synced{syncedFunc(func(context.Context) error { return broken })}}
	loop := controllers.NewLoop(r, controllers.Options{})
	if err := loop.Run(t.Context()); !errors.Is(err, broken) {
		t.Errorf("Run: %v, want %v", err, broken)
	}
	if err := loop.Run(t.Context()); !errors.Is(err, controllers.ErrStarted) {
		t.Errorf("second Run: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r = &recorder{synced: []controllers.Synced{syncedFunc(func(ctx context.Context) error { return ctx.Err() })}}
	if err := controllers.NewLoop(r, controllers.Options{}).Run(ctx); err != nil {
		t.Errorf("cancelled while waiting: %v", err)
	}
}

// A Loop that ends while it starts does not report that its informer has stopped, which is told a moment earlier.
func TestEndedWhileStarting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		stopped := syncedFunc(func(context.Context) error {
			time.Sleep(time.Minute - time.Millisecond)
			return errors.New("informer has stopped")
		})
		if err := controllers.NewLoop(&recorder{synced: []controllers.Synced{stopped}}, controllers.Options{}).Run(ctx); err != nil {
			t.Errorf("Run: %v", err)
		}
	})
}
