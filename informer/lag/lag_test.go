package lag_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/informer/informertest"
	"github.com/keelson-dev/keelson/informer/lag"
	"github.com/keelson-dev/keelson/informer/memory"
)

func TestSource(t *testing.T) {
	informertest.TestSource(t, func(t *testing.T) informertest.Backend {
		store := memory.New[*corev1.ConfigMap](memory.Options{})
		return informertest.Backend{
			Source: lag.New[*corev1.ConfigMap](store),
			Put:    func(m *corev1.ConfigMap) { store.Put(m) },
			Delete: func(namespace, name string) { store.Delete(namespace, name) },
		}
	})
}

func configMap(value string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "a"}, Data: map[string]string{"k": value}}
}

// TestHold: a cache shows nothing of what is held back, whenever the watch began, and all of it afterwards.
func TestHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New[*corev1.ConfigMap](memory.Options{})
		source := lag.New[*corev1.ConfigMap](store)
		in := informer.New(source, informer.Options{})
		go in.Run(t.Context())
		value := func() string {
			synctest.Wait()
			m, ok := in.Get("default", "a")
			if !ok {
				return "nothing"
			}
			return m.Data["k"]
		}
		for n, step := range []struct {
			do   func()
			want string
		}{
			{func() { store.Put(configMap("1")) }, "1"},
			{source.Hold, "1"},
			{func() { store.Put(configMap("2")) }, "1"},
			{func() { source.Hold(); store.Put(configMap("3")) }, "1"},
			{source.Resume, "3"},
			{source.Resume, "3"},
			{func() { store.Delete("default", "a") }, "nothing"},
		} {
			step.do()
			if got := value(); got != step.want {
				t.Errorf("after step %d the cache shows %s, want %s", n, got, step.want)
			}
		}
	})
}

// TestHeldEnds: who waits for what is held back ends with the context, and misses nothing.
func TestHeldEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New[*corev1.ConfigMap](memory.Options{})
		source := lag.New[*corev1.ConfigMap](store)
		_, version, err := source.List(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		stream, err := source.Watch(t.Context(), version)
		if err != nil {
			t.Fatal(err)
		}
		defer stream.Close()
		source.Hold()
		store.Put(configMap("1"))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if events, err := stream.Next(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v, %v", events, err)
		}
		source.Resume()
		if events, err := stream.Next(t.Context()); err != nil || len(events) != 1 || events[0].Object.Data["k"] != "1" {
			t.Errorf("%v, %v", events, err)
		}
	})
}
