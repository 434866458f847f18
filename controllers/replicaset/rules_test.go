package replicaset_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/controllers"
	"github.com/keelson-dev/keelson/controllers/internal/trial"
	"github.com/keelson-dev/keelson/controllers/replicaset"
	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/internal/fakeapi"
	"github.com/keelson-dev/keelson/lifecycle"
)

// byHand runs test with a controller whose Reconcile the test calls itself.
func byHand(t *testing.T, o fakeapi.Options, options replicaset.Options, test func(b *bench, reconcile func(what, writes string))) {
	synctest.Test(t, func(t *testing.T) {
		b := &bench{T: t, api: fakeapi.New(o)}
		b.sets, b.pods = fakeapi.Source[*appsv1.ReplicaSet](b.api, sets), fakeapi.Source[*corev1.Pod](b.api, fakeapi.Pods)
		in := replicaset.Sources{ReplicaSets: informer.New(b.sets, informer.Options{}), Pods: informer.New(b.pods, informer.Options{})}
		c := replicaset.New(in, b.api, &b.events, options)
		c.Watch(&trial.Queue{})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- lifecycle.Group(in.ReplicaSets, in.Pods).Run(ctx) }()
		synctest.Wait()
		test(b, func(what, writes string) {
			t.Helper()
			synctest.Wait()
			b.api.Reset()
			if _, err := c.Reconcile(ctx, controllers.Key{Namespace: "ns", Name: "web"}); err != nil {
				t.Errorf("%s: %v", what, err)
			}
			count := map[string]int{}
			for _, a := range b.api.Actions() {
				count[a.Verb+" "+a.Target.Resource.Resource]++
			}
			if got := fmt.Sprint(count); got != "map["+writes+"]" {
				t.Errorf("%s: %s, want %s", what, got, writes)
			}
		})
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func (b *bench) deleteSet(name string) {
	b.Helper()
	if err := b.api.Delete(b.Context(), client.Target{Resource: sets, Namespace: "ns", Name: name}, metav1.DeleteOptions{}); err != nil {
		b.Fatal(err)
	}
	synctest.Wait()
}

// TestMadeAgain: a set of the same name waits for nothing that the one before it did.
func TestMadeAgain(t *testing.T) {
	byHand(t, fakeapi.Options{}, replicaset.Options{}, func(b *bench, reconcile func(what, writes string)) {
		reconcile("before it is there", "")
		b.create(sets, web(5))
		b.pods.Hold()
		reconcile("a set", "create pods:5 update replicasets:1")
		reconcile("before its pods are seen", "")
		b.deleteSet("web")
		b.create(sets, web(2))
		reconcile("made again", "create pods:2 update replicasets:1")
		b.deleteSet("web")
		reconcile("gone", "")
		b.pods.Resume()
	})
}

// TestSetThatIsDeleted: pods of a set that is being deleted are not replaced.
func TestSetThatIsDeleted(t *testing.T) {
	byHand(t, fakeapi.Options{}, replicaset.Options{}, func(b *bench, reconcile func(what, writes string)) {
		set := web(2)
		set.Finalizers = []string{"x/y"}
		b.create(sets, set)
		reconcile("a set", "create pods:2 update replicasets:1")
		b.deleteSet("web")
		reconcile("is being deleted", "update replicasets:1")
		if err := b.api.Delete(b.Context(), client.Target{Resource: fakeapi.Pods, Namespace: "ns", Name: b.list()[0].Name}, metav1.DeleteOptions{}); err != nil {
			b.Fatal(err)
		}
		reconcile("one pod less", "update replicasets:1")
	})
}

// TestTerminating: which pods count as ones that the set still has to see go.
func TestTerminating(t *testing.T) {
	byHand(t, fakeapi.Options{}, replicaset.Options{}, func(b *bench, reconcile func(what, writes string)) {
		set := b.create(sets, web(0)).(*appsv1.ReplicaSet)
		ref := *metav1.NewControllerRef(set, appsv1.SchemeGroupVersion.WithKind("ReplicaSet"))
		for name, tt := range map[string]struct {
			owned, labelled, deleted bool
			phase                    corev1.PodPhase
		}{
			"going":          {true, true, true, corev1.PodRunning},
			"going-too":      {true, true, true, corev1.PodPending},
			"others":         {true, false, true, corev1.PodRunning},
			"nobodys":        {false, true, true, corev1.PodRunning},
			"ended":          {true, true, false, corev1.PodSucceeded},
			"ended-and-gone": {true, true, true, corev1.PodFailed},
		} {
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Finalizers: []string{"x/y"}}, Status: corev1.PodStatus{Phase: tt.phase}}
			if tt.owned {
				pod.OwnerReferences = []metav1.OwnerReference{ref}
			}
			if tt.labelled {
				pod.Labels = map[string]string{"app": "web"}
			}
			at := client.Target{Resource: fakeapi.Pods, Namespace: "ns"}
			if _, err := b.api.Create(b.Context(), at, pod, metav1.CreateOptions{}); err != nil {
				b.Fatal(err)
			}
			at.Name = name
			if tt.deleted {
				if err := b.api.Delete(b.Context(), at, metav1.DeleteOptions{}); err != nil {
					b.Fatal(err)
				}
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
			var mu sync.Mutex
			now, most := 0, 0
			byHand(t, fakeapi.Options{Before: func(a fakeapi.Action) error {
				if a.Verb != fakeapi.Create || a.Target.Resource != fakeapi.Pods {
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
			}}, replicaset.Options{Parallel: parallel}, func(b *bench, reconcile func(what, writes string)) {
				b.create(sets, web(7))
				reconcile("seven", "create pods:7 update replicasets:1")
				if most != want {
					t.Errorf("%d at once, want %d", most, want)
				}
			})
		})
	}
}

// TestIdle: a set that has what it wants asks for nothing.
func TestIdle(t *testing.T) {
	asked := 0
	inBubble(t, fakeapi.Options{Before: func(a fakeapi.Action) error {
		if a.Verb == fakeapi.Get {
			asked++
		}
		return nil
	}}, nil, func(b *bench) {
		b.create(sets, web(0))
		b.after(time.Minute)
		if asked > 0 {
			b.Errorf("%d reads", asked)
		}
	})
}
