package leaderelection_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/client/faults"
	"github.com/keelson-dev/keelson/controllers/controllerstest"
	"github.com/keelson-dev/keelson/controllers/leaderelection"
	"github.com/keelson-dev/keelson/lifecycle"
)

// TestRequests: to lead costs one request per renewal, and nothing is read that is known.
func TestRequests(t *testing.T) {
	var asked []string
	inBubble(t, controllerstest.Options{Before: func(a faults.Request) error {
		if a.Verb == faults.Create && a.Target.Name != "" {
			t.Errorf("created at %s", a.Target.Name)
		}
		asked = append(asked, a.Verb)
		return nil
	}}, func(o *office) {
		stop, _ := o.candidate("a", leaderelection.Options{})
		time.Sleep(5 * time.Second) // renewed at 0, 2 and 4 s
		synctest.Wait()
		if want := []string{"get", "create", "update", "update", "update"}; !slices.Equal(asked, want) {
			t.Errorf("asked %q, want %q", asked, want)
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}

// TestFreeLeases: which leases can be taken at once.
func TestFreeLeases(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(*coordinationv1.LeaseSpec)
		want   string
	}{
		"another's":               {func(*coordinationv1.LeaseSpec) {}, "1m0s a leads"},
		"one's own, from before":  {func(s *coordinationv1.LeaseSpec) { *s.HolderIdentity = "a" }, "0s a leads"},
		"nobody's":                {func(s *coordinationv1.LeaseSpec) { *s.HolderIdentity = "" }, "0s a leads"},
		"of one that says nobody": {func(s *coordinationv1.LeaseSpec) { s.HolderIdentity = nil }, "0s a leads"},
		"for no time":             {func(s *coordinationv1.LeaseSpec) { s.LeaseDurationSeconds = nil }, "0s a leads"},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, controllerstest.Options{}, func(o *office) {
				o.stranger("x", 0, 60)
				l := o.lease()
				tt.change(&l.Spec)
				at := client.Target{Resource: coordinationv1.SchemeGroupVersion.WithResource("leases"), Namespace: lease.Namespace, Name: lease.Name}
				if _, err := o.api.Update(o.Context(), at, l, metav1.UpdateOptions{}); err != nil {
					t.Fatal(err)
				}
				stop, _ := o.candidate("a", leaderelection.Options{})
				time.Sleep(63 * time.Second)
				o.want(tt.want)
				if err := stop(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// TestNewLeader: who waits is told who leads, and who leads is told who took that away.
func TestNewLeader(t *testing.T) {
	inBubble(t, controllerstest.Options{}, func(o *office) {
		var toA, toB []string
		_, done := o.candidate("a", leaderelection.Options{NewLeader: func(id string) { toA = append(toA, id) }})
		stopB, _ := o.candidate("b", leaderelection.Options{NewLeader: func(id string) { toB = append(toB, id) }})
		time.Sleep(5 * time.Second)
		o.stranger("x", 0, 60)
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if want := []string{"a", "x"}; !slices.Equal(toA, want) || !slices.Equal(toB, want) {
			t.Errorf("told %q and %q", toA, toB)
		}
		if err := <-done; !errors.Is(err, leaderelection.ErrLost) || err.Error() != leaderelection.ErrLost.Error() {
			t.Errorf("Run: %v", err)
		}
		if err := stopB(); err != nil {
			t.Error(err)
		}
	})
}

// TestNeverLed: who is stopped before the lease is free leads nothing, and says nothing.
func TestNeverLed(t *testing.T) {
	inBubble(t, controllerstest.Options{}, func(o *office) {
		o.stranger("x", 0, 60)
		var recorder controllerstest.Recorder
		stop, _ := o.candidate("a", leaderelection.Options{Recorder: &recorder, ReleaseOnCancel: true})
		time.Sleep(5 * time.Second)
		if err := stop(); err != nil {
			t.Error(err)
		}
		if o.want(); len(recorder.Take()) > 0 || *o.lease().Spec.HolderIdentity != "x" {
			t.Errorf("held by %s", *o.lease().Spec.HolderIdentity)
		}
	})
}

// TestJitter: tries to take the lease are spread by up to 1.2 retry periods.
func TestJitter(t *testing.T) {
	for jitter, want := range map[float64]string{0: "[0s 2s 4s 6s]", 0.5: "[0s 3.2s 6.4s]", 1: "[0s 4.4s]"} {
		var tries []time.Duration
		var began time.Time
		inBubble(t, controllerstest.Options{Before: func(a faults.Request) error {
			if a.Verb == faults.Get && !began.IsZero() {
				tries = append(tries, time.Since(began))
			}
			return nil
		}}, func(o *office) {
			o.stranger("x", 0, 60)
			began = time.Now()
			stop, _ := o.candidate("a", leaderelection.Options{Jitter: func() float64 { return jitter }})
			time.Sleep(7 * time.Second)
			if err := stop(); err != nil {
				t.Error(err)
			}
			if got := fmt.Sprint(tries); got != want {
				t.Errorf("%v: tried after %s, want %s", jitter, got, want)
			}
		})
	}
}

// TestLogs: what is told of losing and releasing the lease. What was led may fail when it is lost: both are told.
func TestLogs(t *testing.T) {
	failed := errors.New("failed")
	for name, tt := range map[string]struct {
		down  map[string]bool // verbs that fail from the 5th second on
		stop  bool            // in the 6th second
		wants []string
		err   error // besides ErrLost
	}{
		"released":             {nil, true, nil, nil},
		"unread when released": {map[string]bool{"get": true}, true, []string{"releasing the lease failed"}, nil},
		"not released":         {map[string]bool{"update": true}, true, []string{"releasing the lease failed"}, nil},
		"lost":                 {map[string]bool{"get": true, "update": true}, false, []string{"reading the lease failed", "could not renew the lease in time", "releasing the lease failed"}, failed},
	} {
		t.Run(name, func(t *testing.T) {
			var down atomic.Bool
			var out bytes.Buffer
			inBubble(t, controllerstest.Options{Before: func(a faults.Request) error {
				if down.Load() && tt.down[a.Verb] {
					return errors.New("down")
				}
				return nil
			}}, func(o *office) {
				led := lifecycle.Func(func(ctx context.Context) error {
					<-ctx.Done()
					return tt.err
				})
				log := slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelWarn}))
				e, err := leaderelection.New(lease, "a", o.api, led, leaderelection.Options{Logger: log, ReleaseOnCancel: true})
				if err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithCancel(o.Context())
				defer cancel()
				done := make(chan error, 1)
				go func() { done <- e.Run(ctx) }()
				time.Sleep(5 * time.Second)
				down.Store(true)
				if tt.stop {
					time.Sleep(500 * time.Millisecond)
					cancel()
				}
				err = <-done
				if errors.Is(err, leaderelection.ErrLost) == tt.stop || !errors.Is(err, tt.err) {
					t.Errorf("Run: %v", err)
				}
				for _, want := range tt.wants {
					if !strings.Contains(out.String(), want) {
						t.Errorf("%q is not in %s", want, out.String())
					}
				}
				if tt.wants == nil && out.Len() > 0 {
					t.Errorf("nothing failed, but %s", out.String())
				}
			})
		})
	}
}
