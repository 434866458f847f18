package component_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-dev/keelson/component"
	"github.com/keelson-dev/keelson/informer"
)

// running runs informers until the test ends.
func running(t *testing.T) (*component.Informers, maps) {
	t.Helper()
	in, feed := newInformers()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- in.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	synctest.Wait()
	return in, feed
}

// TestLateInformers: caches that are asked for later run like the others.
func TestLateInformers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in, feed := running(t)
		feed.Put(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "a"}})
		cache := component.Metadata(in, configMaps)
		if err := in.WaitSynced(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, ok := cache.Get("n", "a"); !ok || component.Metadata(in, configMaps) != cache {
			t.Error("it is not in the cache, or there are two caches")
		}
		none := component.Metadata(in, corev1.SchemeGroupVersion.WithResource("pods"))
		if err := none.WaitSynced(t.Context()); !errors.Is(err, informer.ErrStopped) || in.Err() != nil {
			t.Errorf("what is not served: %v, %v", err, in.Err())
		}
		if err := in.WaitSynced(t.Context()); err != nil {
			t.Errorf("what is not served counts: %v", err)
		}
	})
}

// TestDrop: dropped caches end, and another takes their place.
func TestDrop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in, feed := running(t)
		feed.Put(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "a"}})
		typed, meta := component.Informer[*corev1.ConfigMap](in, configMaps), component.Metadata(in, configMaps)
		synctest.Wait()
		in.Drop(schema.GroupResource{Resource: "others"}, func(schema.GroupVersionResource) bool { return false })
		in.Drop(configMaps.GroupResource(), func(gvr schema.GroupVersionResource) bool { return gvr == configMaps })
		synctest.Wait()
		if typed.IsStopped() || meta.IsStopped() {
			t.Error("others were dropped")
		}
		in.Drop(configMaps.GroupResource(), func(schema.GroupVersionResource) bool { return false })
		synctest.Wait()
		if _, ok := typed.Get("n", "a"); !ok || !typed.IsStopped() || !meta.IsStopped() {
			t.Error("the dropped caches run, or lost their state")
		}
		again := component.Informer[*corev1.ConfigMap](in, configMaps)
		if err := in.WaitSynced(t.Context()); err != nil || again == typed {
			t.Errorf("a new cache: %v", err)
		}
	})
}

// TestWaitEmpty: it waits until the handlers know that the last object is gone.
func TestWaitEmpty(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in, feed := running(t)
		a, b := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "a"}}, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "b"}}
		feed.Put(a)
		feed.Put(b)
		left := 0
		component.Metadata(in, configMaps).AddHandler(informer.Handler[informer.Object]{
			Added:   func(informer.Object) { left++ },
			Deleted: func(informer.Object) { time.Sleep(time.Minute); left-- },
		})
		synctest.Wait()
		empty := make(chan error, 1)
		go func() { empty <- in.WaitEmpty(t.Context(), configMaps.GroupResource()) }()
		synctest.Wait()
		feed.Delete("n", "a")
		feed.Delete("n", "b")
		if err := <-empty; err != nil || left != 0 {
			t.Errorf("%v, with %d objects left", err, left)
		}
		if err := in.WaitEmpty(t.Context(), schema.GroupResource{Resource: "others"}); err != nil {
			t.Errorf("of no cache: %v", err)
		}
		feed.Put(a)
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := in.WaitEmpty(ctx, configMaps.GroupResource()); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("with an object: %v", err)
		}
		go func() { empty <- in.WaitEmpty(t.Context(), configMaps.GroupResource()) }()
		synctest.Wait()
		in.Drop(configMaps.GroupResource(), func(schema.GroupVersionResource) bool { return false })
		if err := <-empty; err != nil {
			t.Errorf("dropped meanwhile: %v", err)
		}
		idle, _ := newInformers()
		component.Metadata(idle, configMaps)
		if err := idle.WaitEmpty(t.Context(), configMaps.GroupResource()); err != nil {
			t.Errorf("not running: %v", err)
		}
	})
}
