package resourcequota_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/client/faults"
	"github.com/keelson-dev/keelson/controllers"
	"github.com/keelson-dev/keelson/controllers/controllerstest"
	"github.com/keelson-dev/keelson/controllers/resourcequota"
	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/informer/lag"
	"github.com/keelson-dev/keelson/lifecycle"
)

func in(resource string) schema.GroupVersionResource {
	return corev1.SchemeGroupVersion.WithResource(resource)
}

// bench is a running controller with a server, in a bubble.
type bench struct {
	*testing.T
	api  *controllerstest.API
	pods *lag.Source[*corev1.Pod]
}

func inBubble(t *testing.T, before func(faults.Request) error, test func(*bench)) {
	synctest.Test(t, func(t *testing.T) {
		b := &bench{T: t, api: controllerstest.Start(t, controllerstest.Options{Before: before})}
		b.pods = controllerstest.Source[*corev1.Pod](b.api, controllerstest.Pods())
		detect := informer.Options{DetectMutations: func(err error) { t.Error(err) }}
		configMaps := informer.New(controllerstest.Source[informer.Object](b.api, in("configmaps")), detect)
		sources := resourcequota.Sources{
			Quotas:   informer.New(controllerstest.Source[*corev1.ResourceQuota](b.api, in("resourcequotas")), detect),
			Pods:     informer.New(b.pods, detect),
			Services: informer.New(controllerstest.Source[*corev1.Service](b.api, in("services")), detect),
			Counted:  map[schema.GroupResource]*informer.Informer[informer.Object]{{Resource: "configmaps"}: configMaps},
		}
		loop := controllers.NewLoop(resourcequota.New(sources, b.api, resourcequota.Options{}), controllers.Options{Workers: 5})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() {
			done <- lifecycle.Group(sources.Quotas, sources.Pods, sources.Services, configMaps, loop).Run(ctx)
		}()
		synctest.Wait()
		test(b)
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func (b *bench) create(resource string, obj informer.Object) {
	b.Helper()
	if _, err := b.api.Create(b.Context(), client.Target{Resource: in(resource), Namespace: "ns"}, obj, metav1.CreateOptions{}); err != nil {
		b.Fatal(err)
	}
}

func (b *bench) delete(resource, name string) {
	b.Helper()
	at := client.Target{Resource: in(resource), Namespace: "ns", Name: name}
	if err := b.api.Delete(b.Context(), at, *metav1.NewDeleteOptions(0)); err != nil {
		b.Fatal(err)
	}
}

func (b *bench) quota() *corev1.ResourceQuota {
	b.Helper()
	obj, err := b.api.Get(b.Context(), client.Target{Resource: in("resourcequotas"), Namespace: "ns", Name: "q"})
	if err != nil {
		b.Fatal(err)
	}
	return obj.(*corev1.ResourceQuota)
}

// charge is what admission does before a write.
func (b *bench) charge(name corev1.ResourceName, n int64) {
	b.Helper()
	q := b.quota()
	used := q.Status.Used[name]
	used.Add(*resource.NewQuantity(n, resource.DecimalSI))
	q.Status.Used[name] = used
	at := client.Target{Resource: in("resourcequotas"), Namespace: "ns", Name: "q", Subresource: "status"}
	if _, err := b.api.Update(b.Context(), at, q, metav1.UpdateOptions{}); err != nil {
		b.Fatal(err)
	}
}

// used compares the usage once nothing moves any more.
func (b *bench) used(want string) {
	b.Helper()
	time.Sleep(time.Second)
	synctest.Wait()
	q := b.quota()
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(q.Status.Used)) {
		quantity := q.Status.Used[name]
		parts = append(parts, string(name)+"="+quantity.String())
	}
	if got := strings.Join(parts, " "); got != want {
		b.Errorf("used %s, want %s", got, want)
	}
}

func quotaOf(pairs ...string) *corev1.ResourceQuota {
	q := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "q"}, Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{}}}
	for i := 0; i < len(pairs); i += 2 {
		q.Spec.Hard[corev1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return q
}

func podOf(name string, cpu string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PodSpec{Containers: []corev1.Container{{
		Name: "c", Image: "i", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse(cpu)}},
	}}}}
}

// TestCount: a new quota is told what is there, of what is known of; a larger one what else is.
func TestCount(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		for i := range 3 {
			b.create("pods", podOf(fmt.Sprint("p", i), "500m"))
		}
		b.create("configmaps", &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "c"}})
		b.create("services", &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "s"}, Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeNodePort, Ports: []corev1.ServicePort{{Name: "a", Port: 1}, {Name: "b", Port: 2}}}})
		b.create("resourcequotas", quotaOf("pods", "5", "cpu", "3", "configmaps", "9", "services.nodeports", "4",
			"resourcequotas", "1", "persistentvolumeclaims", "1", "gold.storageclass.storage.k8s.io/requests.storage", "1Gi", "count/widgets.example.com", "1"))
		const rest = "configmaps=1 cpu=1500m gold.storageclass.storage.k8s.io/requests.storage=0 persistentvolumeclaims=0 pods=3 resourcequotas=1 "
		b.used(rest + "services.nodeports=2")
		q := b.quota()
		q.Spec.Hard["services"] = resource.MustParse("7")
		if _, err := b.api.Update(b.Context(), client.Target{Resource: in("resourcequotas"), Namespace: "ns", Name: "q"}, q, metav1.UpdateOptions{}); err != nil {
			b.Fatal(err)
		}
		b.used(rest + "services=1 services.nodeports=2")
		if q := b.quota(); !slices.Equal(slices.Sorted(maps.Keys(q.Status.Hard)), slices.Sorted(maps.Keys(q.Spec.Hard))) {
			b.Errorf("limits in force are %v", q.Status.Hard)
		}
	})
}

// TestGiveBack: what ends, shrinks or goes is given back at once, what was charged and is not there
// yet is not.
func TestGiveBack(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		b.create("resourcequotas", quotaOf("pods", "9", "count/pods", "9"))
		b.used("count/pods=0 pods=0")
		b.charge("pods", 3)
		b.charge("count/pods", 3)
		b.used("count/pods=3 pods=3")
		b.create("pods", podOf("a", "0"))
		b.create("pods", podOf("b", "0"))
		b.used("count/pods=3 pods=3")
		b.delete("pods", "a")
		b.used("count/pods=2 pods=2") // b, and one on its way
		pod := podOf("b", "0")
		pod.Status.Phase = corev1.PodSucceeded
		at := client.Target{Resource: controllerstest.Pods(), Namespace: "ns", Name: "b", Subresource: "status"}
		if _, err := b.api.Update(b.Context(), at, pod, metav1.UpdateOptions{}); err != nil {
			b.Fatal(err)
		}
		b.used("count/pods=2 pods=1")
		b.create("pods", podOf("c", "0"))
		b.delete("pods", "b")
		b.used("count/pods=1 pods=1")
		time.Sleep(10 * time.Minute)
		b.used("count/pods=1 pods=1")
	})
}

// TestBlink: a pod that comes and goes before its charge is seen is given back all the same.
func TestBlink(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		b.create("resourcequotas", quotaOf("pods", "9"))
		b.used("pods=0")
		b.pods.Hold()
		for i := range 5 {
			b.charge("pods", 1)
			b.create("pods", podOf(fmt.Sprint(i), "0"))
			b.delete("pods", fmt.Sprint(i))
		}
		b.used("pods=5")
		b.pods.Resume()
		b.used("pods=0")
	})
}

// TestUnaccounted: what was charged for nothing is given back when no write can be on its way, and
// what was not charged is.
func TestUnaccounted(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		b.create("resourcequotas", quotaOf("pods", "9"))
		b.used("pods=0")
		b.charge("pods", 3)
		time.Sleep(100 * time.Second)
		b.charge("pods", 1)
		time.Sleep(100 * time.Second)
		b.used("pods=4")
		time.Sleep(20 * time.Second)
		b.used("pods=0")
		b.create("pods", podOf("a", "0"))
		b.used("pods=1")
	})
}

// TestLostNode: a pod whose time is over does not count, though it is still there.
func TestLostNode(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		b.create("resourcequotas", quotaOf("pods", "9", "count/pods", "9"))
		pod := podOf("a", "0")
		pod.Finalizers = []string{"example.com/stays"}
		b.create("pods", pod)
		b.used("count/pods=1 pods=1")
		at := client.Target{Resource: controllerstest.Pods(), Namespace: "ns", Name: "a"}
		if err := b.api.Delete(b.Context(), at, *metav1.NewDeleteOptions(30)); err != nil {
			b.Fatal(err)
		}
		b.used("count/pods=1 pods=1")
		time.Sleep(6 * time.Minute)
		b.used("count/pods=1 pods=0")
	})
}

// TestFailedWrites: a write that was refused is made again; one of which nobody knows gives nothing
// back twice.
func TestFailedWrites(t *testing.T) {
	for name, c := range map[string]struct {
		err   error
		early string
	}{
		"refused": {apierrors.NewTooManyRequests("later", 1), "pods=1"},
		"unknown": {errors.New("connection lost"), "pods=2"},
	} {
		t.Run(name, func(t *testing.T) {
			var failing atomic.Bool
			inBubble(t, func(a faults.Request) error {
				if a.Target.Subresource == "status" && failing.CompareAndSwap(true, false) {
					return c.err
				}
				return nil
			}, func(b *bench) {
				b.create("resourcequotas", quotaOf("pods", "9"))
				b.used("pods=0")
				b.charge("pods", 2)
				b.create("pods", podOf("a", "0")) // and another on its way
				synctest.Wait()
				failing.Store(true)
				b.delete("pods", "a")
				b.used(c.early)
				time.Sleep(3 * time.Minute)
				b.used("pods=0")
			})
		})
	}
}
