package replicaset_test

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/client/faults"
	"github.com/keelson-dev/keelson/controllers"
	"github.com/keelson-dev/keelson/controllers/controllerstest"
	"github.com/keelson-dev/keelson/controllers/internal/trial"
	"github.com/keelson-dev/keelson/controllers/replicaset"
)

// byHand runs test with a controller whose Reconcile the test calls itself.
func byHand(t *testing.T, o replicaset.Options, test func(b *bench, reconcile func(what, writes string))) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := &bench{}
		in, c := b.controller(t, o)
		c.Watch(&trial.Queue{})
		controllerstest.Go(t, in.ReplicaSets, in.Pods)
		synctest.Wait()
		test(b, func(what, writes string) {
			t.Helper()
			b.api.Reset()
			if _, err := c.Reconcile(t.Context(), controllers.Key{Namespace: "ns", Name: "web"}); err != nil {
				t.Errorf("%s: %v", what, err)
			}
			synctest.Wait()
			count := map[string]int{}
			for _, r := range b.api.Writes() {
				count[r.Verb+" "+r.Target.Resource.Resource]++
			}
			if got := fmt.Sprint(count); got != "map["+writes+"]" {
				t.Errorf("%s: %s, want %s", what, got, writes)
			}
		})
	})
}

// TestMadeAgain: a set that is created anew under the same name does not wait for the pods of its predecessor.
func TestMadeAgain(t *testing.T) {
	byHand(t, replicaset.Options{}, func(b *bench, reconcile func(what, writes string)) {
		reconcile("before it is there", "")
		create(b, web(5))
		b.pods.Hold()
		reconcile("a set", "create pods:5 update replicasets:1")
		reconcile("before its pods are seen", "")
		b.remove(at("web"))
		create(b, web(2))
		reconcile("made again", "create pods:2 update replicasets:1")
		b.remove(at("web"))
		reconcile("gone", "")
		b.pods.Resume()
	})
}

// TestSetThatIsDeleted: pods of a set that is being deleted are not replaced.
func TestSetThatIsDeleted(t *testing.T) {
	byHand(t, replicaset.Options{}, func(b *bench, reconcile func(what, writes string)) {
		set := web(2)
		set.Finalizers = []string{"x/y"}
		create(b, set)
		reconcile("a set", "create pods:2 update replicasets:1")
		b.remove(at("web"))
		reconcile("is being deleted", "update replicasets:1")
		b.remove(podAt(b.list()[0].Name))
		reconcile("one pod less", "update replicasets:1")
	})
}

// TestTerminating: which pods are counted as terminating.
func TestTerminating(t *testing.T) {
	byHand(t, replicaset.Options{}, func(b *bench, reconcile func(what, writes string)) {
		set := create(b, web(0))
		for name, tt := range map[string]struct {
			owned, labelled, deleted bool
			phase                    corev1.PodPhase
		}{
			"going":          {true, true, true, corev1.PodRunning},
			"going-too":      {true, true, true, corev1.PodPending},
			"others":         {true, false, true, corev1.PodRunning},
			"orphan":         {false, true, true, corev1.PodRunning},
			"ended":          {true, true, false, corev1.PodSucceeded},
			"ended-and-gone": {true, true, true, corev1.PodFailed},
		} {
			pod := podWith(name, nil, nil)
			pod.Finalizers, pod.Status.Phase = []string{"x/y"}, tt.phase
			if tt.owned {
				own(pod, set)
			}
			if tt.labelled {
				pod.Labels = app("web")
			}
			create(b, pod)
			if tt.deleted {
				b.remove(podAt(name))
			}
		}
		reconcile("once", "update replicasets:1")
		b.wantStatus("web", "replicas 0 labeled 0 ready 0 available 0 terminating 2 observed 1")
	})
}

// TestParallel: how many pods are created at once, by Options.Parallel; batches grow from one.
func TestParallel(t *testing.T) {
	for parallel, want := range map[int]int{0: 4, 1: 1, 3: 3} {
		t.Run(fmt.Sprint(parallel), func(t *testing.T) {
			byHand(t, replicaset.Options{Parallel: parallel}, func(b *bench, reconcile func(what, writes string)) {
				var mu sync.Mutex
				now, most := 0, 0
				b.before = func(r faults.Request) error {
					if r.Verb != faults.Create {
						return nil
					}
					mu.Lock()
					now++
					most = max(most, now)
					mu.Unlock()
					time.Sleep(time.Second)
					mu.Lock()
					defer mu.Unlock()
					now--
					return nil
				}
				create(b, web(7))
				reconcile("seven", "create pods:7 update replicasets:1")
				if most != want {
					t.Errorf("%d at once, want %d", most, want)
				}
			})
		})
	}
}

// TestIdle: a set that needs no pods costs one update of its status.
func TestIdle(t *testing.T) {
	inBubble(t, func(b *bench) {
		create(b, web(0))
		b.after(time.Minute)
		if all := fmt.Sprint(b.api.Requests()); all != "[update replicasets/status ns/web]" {
			b.Errorf("asked for %s", all)
		}
	})
}
