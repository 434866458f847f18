package resourcequota_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/client/faults"
	"github.com/keelson-dev/keelson/controllers"
	"github.com/keelson-dev/keelson/controllers/controllerstest"
	"github.com/keelson-dev/keelson/controllers/internal/trial"
	"github.com/keelson-dev/keelson/controllers/resourcequota"
	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/lifecycle"
)

// byHand runs test with a controller whose Reconcile the test calls itself. It counts leases besides.
func byHand(t *testing.T, before func(faults.Request) error, watch bool, test func(*bench, *resourcequota.Controller)) {
	synctest.Test(t, func(t *testing.T) {
		b := &bench{T: t, api: controllerstest.Start(t, controllerstest.Options{Before: before})}
		leases := informer.New(controllerstest.Source[informer.Object](b.api, coordinationv1.SchemeGroupVersion.WithResource("leases")), informer.Options{})
		sources := resourcequota.Sources{
			Quotas:   informer.New(controllerstest.Source[*corev1.ResourceQuota](b.api, in("resourcequotas")), informer.Options{}),
			Pods:     informer.New(controllerstest.Source[*corev1.Pod](b.api, controllerstest.Pods()), informer.Options{}),
			Services: informer.New(controllerstest.Source[*corev1.Service](b.api, in("services")), informer.Options{}),
			Counted:  map[schema.GroupResource]*informer.Informer[informer.Object]{{Group: "coordination.k8s.io", Resource: "leases"}: leases},
		}
		c := resourcequota.New(sources, b.api, resourcequota.Options{Quiet: 10 * time.Second})
		if watch {
			var q trial.Queue
			if got := c.Watch(&q); len(got) != 4 || got[3] != leases {
				t.Errorf("waits for %v", got)
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- lifecycle.Group(sources.Quotas, sources.Pods, sources.Services, leases).Run(ctx) }()
		synctest.Wait()
		test(b, c)
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// reconcile compares when the quota is to be looked at again, and how many writes that took.
func (b *bench) reconcile(what string, c *resourcequota.Controller, again time.Duration, writes int) {
	b.Helper()
	synctest.Wait()
	b.api.Reset()
	result, err := c.Reconcile(b.Context(), controllers.Key{Namespace: "ns", Name: "q"})
	if err != nil || result.RequeueAfter != again || len(b.api.Writes()) != writes {
		b.Errorf("%s: %v, %v, did %v", what, result, err, b.api.Writes())
	}
	synctest.Wait()
}

// TestWhenAgain: only a quota that is charged with more than there is has to be looked at again, when that has been so for long
// enough, and not within a second.
func TestWhenAgain(t *testing.T) {
	byHand(t, nil, true, func(b *bench, c *resourcequota.Controller) {
		b.reconcile("before it is there", c, 0, 0)
		b.create("resourcequotas", quotaOf("pods", "9", "count/leases.coordination.k8s.io", "9"))
		at := client.Target{Resource: coordinationv1.SchemeGroupVersion.WithResource("leases"), Namespace: "ns"}
		if _, err := b.api.Create(b.Context(), at, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "l"}}, metav1.CreateOptions{}); err != nil {
			b.Fatal(err)
		}
		time.Sleep(time.Minute)
		b.reconcile("it is new", c, 0, 1)
		b.used("count/leases.coordination.k8s.io=1 pods=0")
		b.reconcile("it is right", c, 0, 0)
		b.charge("pods", 1)
		b.reconcile("it is charged", c, 10*time.Second, 0)
		time.Sleep(8500 * time.Millisecond)
		b.reconcile("for some time", c, 1500*time.Millisecond, 0)
		time.Sleep(time.Second)
		b.reconcile("for nearly long enough", c, time.Second, 0)
		time.Sleep(time.Second)
		b.reconcile("for long enough", c, 0, 1)
		b.used("count/leases.coordination.k8s.io=1 pods=0")
	})
}

// TestUntracked: a quota whose objects nobody has counted yet is left alone.
func TestUntracked(t *testing.T) {
	byHand(t, nil, false, func(b *bench, c *resourcequota.Controller) {
		b.create("resourcequotas", quotaOf("pods", "9"))
		b.reconcile("not told of yet", c, 0, 0)
	})
}

// TestQuotaThatChanged: that a quota was charged, or went, before its status could be written is no failure: the cache will tell.
func TestQuotaThatChanged(t *testing.T) {
	gr := schema.GroupResource{Resource: "resourcequotas"}
	for name, refuse := range map[string]error{"charged": apierrors.NewConflict(gr, "q", errors.New("late")), "gone": apierrors.NewNotFound(gr, "q")} {
		t.Run(name, func(t *testing.T) {
			byHand(t, func(a faults.Request) error {
				if a.Verb == faults.Update {
					return refuse
				}
				return nil
			}, true, func(b *bench, c *resourcequota.Controller) {
				b.create("resourcequotas", quotaOf("pods", "9"))
				b.reconcile(name, c, 0, 1)
			})
		})
	}
}
