package leaderelection_test

import (
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/client/faults"
	"github.com/keelson-dev/keelson/controllers/controllerstest"
	"github.com/keelson-dev/keelson/controllers/leaderelection"
)

// stranger writes the lease as a process would whose clock is off by so much.
func (o *office) stranger(identity string, off time.Duration, seconds int32) {
	o.Helper()
	at, transitions := metav1.NewMicroTime(time.Now().Add(off)), int32(3)
	where := client.Target{Resource: coordinationv1.SchemeGroupVersion.WithResource("leases"), Namespace: lease.Namespace}
	l := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: lease.Name}, Spec: coordinationv1.LeaseSpec{
		HolderIdentity: &identity, LeaseDurationSeconds: &seconds, AcquireTime: &at, RenewTime: &at, LeaseTransitions: &transitions,
	}}
	_, err := o.api.Create(o.Context(), where, l, metav1.CreateOptions{})
	if err != nil {
		where.Name = lease.Name
		l.ResourceVersion = o.lease().ResourceVersion // a lease is never updated without
		_, err = o.api.Update(o.Context(), where, l, metav1.UpdateOptions{})
	}
	if err != nil {
		o.Fatal(err)
	}
}

// TestOtherClock: how long a lease binds counts from when it was seen to change, by the clock of who looks, and lasts as long as
// its holder said; the times in it mean nothing.
func TestOtherClock(t *testing.T) {
	for _, off := range []time.Duration{-24 * time.Hour, 0, 24 * time.Hour} {
		for _, seconds := range []int32{15, 60} {
			t.Run(fmt.Sprint(off, seconds), func(t *testing.T) {
				inBubble(t, controllerstest.Options{}, func(o *office) {
					o.stranger("x", off, seconds)
					stop, _ := o.candidate("a", leaderelection.Options{})
					time.Sleep(11 * time.Second)
					o.stranger("x", off, seconds) // seen at 12 s
					time.Sleep(time.Duration(seconds) * time.Second)
					synctest.Wait()
					if o.want(); *o.lease().Spec.HolderIdentity != "x" {
						t.Errorf("it was taken by %s", *o.lease().Spec.HolderIdentity)
					}
					time.Sleep(5 * time.Second) // two tries
					synctest.Wait()
					if l := o.lease().Spec; *l.HolderIdentity != "a" || *l.LeaseTransitions != 4 {
						t.Errorf("held by %s after %d transitions", *l.HolderIdentity, *l.LeaseTransitions)
					}
					if err := stop(); err != nil {
						t.Error(err)
					}
				})
			})
		}
	}
}

// TestLeaseTaken: a leader that finds the lease in other hands stops, and does not take it back before its time.
func TestLeaseTaken(t *testing.T) {
	inBubble(t, controllerstest.Options{}, func(o *office) {
		_, done := o.candidate("a", leaderelection.Options{ReleaseOnCancel: true})
		time.Sleep(5 * time.Second)
		o.stranger("x", -time.Hour, 60)
		if err := <-done; err == nil {
			t.Error("it was not told")
		}
		o.mu.Lock()
		got := slices.Clone(o.log)
		o.mu.Unlock()
		if want := []string{"0s a leads", "17s a stops"}; !slices.Equal(got, want) { // ten seconds of tries from 6 s on, and one to stop
			t.Errorf("log %q, want %q", got, want)
		}
		if l := o.lease().Spec; *l.HolderIdentity != "x" || *l.LeaseTransitions != 3 {
			t.Errorf("what another one holds was released: %+v", l)
		}
	})
}

// TestFailedWriteIsNoLease: who could not write the lease, or not read it, does not lead.
func TestFailedWriteIsNoLease(t *testing.T) {
	for name, tt := range map[string]struct {
		verb  string
		there bool // whether another one's lease of one second is
		leads string
	}{
		"create": {faults.Create, false, "1m2s a leads"},
		"read":   {faults.Get, true, "1m4s a leads"}, // it was seen at 62 s
		"update": {faults.Update, true, "1m2s a leads"},
	} {
		t.Run(name, func(t *testing.T) {
			var down atomic.Bool
			inBubble(t, controllerstest.Options{Before: func(a faults.Request) error {
				if down.Load() && a.Verb == tt.verb {
					return apierrors.NewConflict(a.Target.Resource.GroupResource(), a.Target.Name, errors.New("late"))
				}
				return nil
			}}, func(o *office) {
				if tt.there {
					o.stranger("x", 0, 1)
				}
				down.Store(true)
				stop, _ := o.candidate("a", leaderelection.Options{})
				time.Sleep(61 * time.Second)
				o.want()
				down.Store(false)
				time.Sleep(4 * time.Second)
				synctest.Wait()
				o.want(tt.leads)
				if err := stop(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// TestReleaseIsTriedAgain: a lease that others write to while it is given up is given up all the same.
func TestReleaseIsTriedAgain(t *testing.T) {
	var conflicts atomic.Int32
	inBubble(t, controllerstest.Options{Before: func(a faults.Request) error {
		if a.Verb == faults.Update && conflicts.Add(-1) >= 0 {
			return apierrors.NewConflict(a.Target.Resource.GroupResource(), a.Target.Name, errors.New("late"))
		}
		return nil
	}}, func(o *office) {
		stop, _ := o.candidate("a", leaderelection.Options{ReleaseOnCancel: true})
		time.Sleep(time.Second)
		conflicts.Store(2)
		if err := stop(); err != nil {
			t.Error(err)
		}
		if got := *o.lease().Spec.HolderIdentity; got != "" {
			t.Errorf("%q still holds it", got)
		}
	})
}
