package resourcequota_test

import (
	"context"
	"errors"
	"sync/atomic"
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
	"github.com/keelson-dev/keelson/controllers/resourcequota"
	"github.com/keelson-dev/keelson/informer"
)

// TestFollow: resources that come are counted, those that go keep their usage, and those that come back are counted once.
func TestFollow(t *testing.T) {
	var failing atomic.Bool // fails writes
	synctest.Test(t, func(t *testing.T) {
		b := &bench{T: t, api: controllerstest.Start(t, controllerstest.Options{Before: func(r faults.Request) error {
			if failing.Load() && r.Verb == faults.Update {
				return apierrors.NewForbidden(r.Target.Resource.GroupResource(), r.Target.Name, errors.New("a test"))
			}
			return nil
		}})}
		sources := resourcequota.Sources{
			Quotas:   informer.New(controllerstest.Source[*corev1.ResourceQuota](b.api, in("resourcequotas")), informer.Options{}),
			Pods:     informer.New(controllerstest.Source[*corev1.Pod](b.api, controllerstest.Pods()), informer.Options{}),
			Services: informer.New(controllerstest.Source[*corev1.Service](b.api, in("services")), informer.Options{}),
		}
		events := informer.New(controllerstest.Source[informer.Object](b.api, in("events")), informer.Options{}) // are never counted
		sources.Counted = map[schema.GroupResource]*informer.Informer[informer.Object]{{Resource: "events"}: events}
		c := resourcequota.New(sources, b.api, resourcequota.Options{})
		leases := coordinationv1.SchemeGroupVersion.WithResource("leases")
		type counted = map[schema.GroupResource]*informer.Informer[informer.Object]
		follow := func(ctx context.Context, run bool) (counted, error) {
			i := informer.New(controllerstest.Source[informer.Object](b.api, leases), informer.Options{})
			if run {
				controllerstest.Go(t, i)
			}
			all := counted{leases.GroupResource(): i}
			return all, c.Follow(ctx, all)
		}
		create := func(names ...string) {
			t.Helper()
			for _, name := range names {
				if _, err := b.api.Others.Create(t.Context(), client.Target{Resource: leases, Namespace: "ns"},
					&coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}); err != nil {
					t.Fatal(err)
				}
			}
		}
		create("a", "b")
		secrets := informer.New(controllerstest.Source[informer.Object](b.api, in("secrets")), informer.Options{})
		for _, all := range []counted{{{Resource: "secrets"}: secrets}, nil} { // before it runs, there is nothing to wait for
			if err := c.Follow(t.Context(), all); err != nil {
				t.Fatal(err)
			}
		}
		b.create("resourcequotas", quotaOf("count/leases.coordination.k8s.io", "9", "pods", "9"))
		controllerstest.Go(t, sources.Quotas, sources.Pods, sources.Services, controllers.NewLoop(c, controllers.Options{Workers: 5}))
		b.used("pods=0") // of leases it knows nothing
		if _, err := follow(t.Context(), true); err != nil {
			t.Fatal(err)
		}
		b.used("count/leases.coordination.k8s.io=2 pods=0")
		if err := c.Follow(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		create("c")
		b.used("count/leases.coordination.k8s.io=2 pods=0")
		all, err := follow(t.Context(), true)
		for _, next := range []counted{all, nil, all} { // the same again, at once and after it was gone
			err = errors.Join(err, c.Follow(t.Context(), next))
		}
		if err != nil {
			t.Fatal(err)
		}
		b.used("count/leases.coordination.k8s.io=3 pods=0")
		if _, err := follow(t.Context(), true); err != nil { // through another informer
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		b.used("count/leases.coordination.k8s.io=3 pods=0")
		remove := func(name string) {
			t.Helper()
			if err := b.api.Others.Delete(t.Context(), client.Target{Resource: leases, Namespace: "ns", Name: name}, metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		remove("c")
		b.used("count/leases.coordination.k8s.io=2 pods=0")
		failing.Store(true) // the resource goes before it is written that its objects went
		remove("a")
		synctest.Wait()
		if err := c.Follow(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		failing.Store(false)
		time.Sleep(time.Hour)
		b.used("count/leases.coordination.k8s.io=1 pods=0")
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		never, err := follow(ctx, false)
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("an informer that nobody runs: %v", err)
		}
		again, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := c.Follow(again, never); err != nil { // which is not new any more
			t.Error(err)
		}
	})
}
