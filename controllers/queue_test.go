package controllers_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/keelson-dev/keelson/controllers"
)

// failing fails always, but in the calls of a key that are among fine.
func failing(fine ...int) func(context.Context, controllers.Key, int) (controllers.Result, error) {
	return func(_ context.Context, _ controllers.Key, nth int) (controllers.Result, error) {
		if slices.Contains(fine, nth) {
			return controllers.Result{}, nil
		}
		return controllers.Result{}, errors.New("no")
	}
}

// TestDelays: when a key that fails again and again comes, for how long it is watched, and after which of its calls it is well.
func TestDelays(t *testing.T) {
	for name, tt := range map[string]struct {
		retry controllers.Retry
		watch time.Duration
		fine  []int
		want  []string
	}{
		"up to 1000 s":           {controllers.Retry{First: 300 * time.Second}, time.Hour, nil, []string{"0s", "5m0s", "15m0s", "31m40s", "48m20s"}},
		"double is the maximum":  {controllers.Retry{First: time.Second, Max: 4 * time.Second}, 14 * time.Second, nil, []string{"0s", "1s", "3s", "7s", "11s"}},
		"just below the maximum": {controllers.Retry{First: time.Second, Max: 2*time.Second + 1}, 4 * time.Second, nil, []string{"0s", "1s", "3s"}},
		"well in between":        {controllers.Retry{First: time.Second}, 10 * time.Second, []int{3, 4, 5}, []string{"0s", "1s", "3s"}},
		"more than the maximum":  {controllers.Retry{First: time.Hour, Max: time.Minute}, 150 * time.Second, nil, []string{"0s", "1m0s", "2m0s"}},
		"from 1 ns to 1 s":       {controllers.Retry{First: 1, Max: time.Second}, 40 * time.Second, nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			r := &recorder{keys: []controllers.Key{{}}, reconcile: failing(tt.fine...), retry: tt.retry}
			got := run(t, r, controllers.Options{}, tt.watch, nil)
			for i := range got {
				got[i] = got[i][:len(got[i])-1] // of the key that has no name
			}
			if tt.want == nil { // doubles from 1 ns 30 times, and stays
				if len(got) != 30+39 || got[len(got)-1] != "39.073741823s" {
					t.Errorf("%d calls: %q", len(got), got)
				}
				return
			}
			wantCalls(t, got, tt.want...)
		})
	}
}

// TestBackoffBeginsAnew: what was well in between is a first failure again.
func TestBackoffBeginsAnew(t *testing.T) {
	r := &recorder{keys: []controllers.Key{{Name: "a"}}, reconcile: failing(3)}
	got := run(t, r, controllers.Options{Retry: controllers.Retry{First: time.Second}}, 12*time.Second, func() {
		time.Sleep(10 * time.Second)
		r.to().Add(controllers.Key{Name: "a"})
	})
	wantCalls(t, got, "0s a", "1s a", "3s a", "10s a", "11s a")
}

func TestRequeueAfter(t *testing.T) {
	r := &recorder{keys: []controllers.Key{{Name: "a"}}}
	r.reconcile = func(context.Context, controllers.Key, int) (controllers.Result, error) {
		return controllers.Result{RequeueAfter: time.Minute}, nil
	}
	wantCalls(t, run(t, r, controllers.Options{}, 150*time.Second, nil), "0s a", "1m0s a", "2m0s a")
}

// TestOneWorker: by default one key is worked on after the other, each once however often it was added.
func TestOneWorker(t *testing.T) {
	r := &recorder{keys: []controllers.Key{{Name: "b"}, {Name: "a"}, {Name: "b"}, {Name: "c"}, {Name: "a"}}}
	r.reconcile = func(context.Context, controllers.Key, int) (controllers.Result, error) {
		time.Sleep(time.Second)
		return controllers.Result{}, nil
	}
	wantCalls(t, run(t, r, controllers.Options{}, time.Minute, nil), "0s b", "1s a", "2s c")
}

// TestManyWorkers: what becomes due at once is worked on at once, and what is added meanwhile too.
func TestManyWorkers(t *testing.T) {
	r := &recorder{}
	r.reconcile = func(context.Context, controllers.Key, int) (controllers.Result, error) {
		time.Sleep(10 * time.Second)
		return controllers.Result{}, nil
	}
	got := run(t, r, controllers.Options{Workers: 3}, time.Minute, func() {
		time.Sleep(time.Second)
		for i := range 4 {
			r.to().AddAfter(controllers.Key{Name: fmt.Sprint(i)}, time.Second)
		}
		time.Sleep(2 * time.Second)
		r.to().Add(controllers.Key{Name: "0"}) // once more: it waits in line for a worker, behind the fourth
	})
	slices.Sort(got)
	wantCalls(t, got, "12s 0", "12s 3", "2s 0", "2s 1", "2s 2")
}

// TestSuperseded: a time that was given up for an earlier one does not come back, neither for its key nor for another's.
func TestSuperseded(t *testing.T) {
	a, b := controllers.Key{Name: "a"}, controllers.Key{Name: "b"}
	r := &recorder{}
	got := run(t, r, controllers.Options{}, time.Hour, func() {
		time.Sleep(time.Second)
		r.to().AddAfter(a, time.Minute)
		r.to().AddAfter(a, 10*time.Second)
		r.to().AddAfter(b, 2*time.Minute)
		time.Sleep(20 * time.Second)
		r.to().AddAfter(a, 3*time.Minute)
	})
	wantCalls(t, got, "11s a", "2m1s b", "3m21s a")
}

// TestBatchAtItsInstant: what is added at the very instant of a batch comes with the next one, by AddAfter without a delay, too.
func TestBatchAtItsInstant(t *testing.T) {
	r := &recorder{keys: []controllers.Key{{Name: "a"}}}
	r.reconcile = func(_ context.Context, key controllers.Key, nth int) (controllers.Result, error) {
		if key.Name == "a" && nth == 1 {
			r.to().AddAfter(controllers.Key{Name: "now"}, 0)
			r.to().AddAfter(controllers.Key{Name: "before"}, -time.Minute)
			r.to().Add(controllers.Key{Name: "add"})
		}
		return controllers.Result{}, nil
	}
	wantCalls(t, run(t, r, controllers.Options{Batch: time.Second}, time.Minute, nil), "1s a", "2s add", "2s before", "2s now")
}

// TestLog: failures are logged with the controller, the key and when it comes again; not those after the end.
func TestLog(t *testing.T) {
	var out bytes.Buffer
	logger := slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}}))
	r := &recorder{keys: []controllers.Key{{Namespace: "ns", Name: "bad"}, {Name: "slow"}}, retry: controllers.Retry{First: time.Second, Limit: 1}}
	r.reconcile = func(ctx context.Context, key controllers.Key, _ int) (controllers.Result, error) {
		if key.Name == "slow" {
			<-ctx.Done()
			return controllers.Result{}, ctx.Err()
		}
		return controllers.Result{}, errors.New("no")
	}
	run(t, r, controllers.Options{Logger: logger, Workers: 2}, time.Minute, nil)
	want := `level=WARN msg="reconciling failed" controller=recorder key=ns/bad retry=1s error=no
level=ERROR msg="reconciling failed, giving up" controller=recorder key=ns/bad error=no
`
	if got := out.String(); got != want {
		t.Errorf("log:\n%swant:\n%s", got, want)
	}
}
