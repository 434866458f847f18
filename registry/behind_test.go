package registry_test

import (
	"context"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/registry/core"
	"github.com/keelson-dev/keelson/storage"
	"github.com/keelson-dev/keelson/storage/memory"
)

// held is a store whose streams stand still until somebody asks for its revision.
type held struct {
	storage.Store
	open chan struct{}
	once *sync.Once
}

func (h held) Revision(ctx context.Context) (int64, error) {
	h.once.Do(func() { close(h.open) })
	return h.Store.Revision(ctx)
}

func (h held) Watch(ctx context.Context, prefix string, after int64) (storage.Stream, error) {
	s, err := h.Store.Watch(ctx, prefix, after)
	return heldStream{s, h.open}, err
}

type heldStream struct {
	storage.Stream
	open chan struct{}
}

func (s heldStream) Next(ctx context.Context) ([]storage.Event, error) {
	select {
	case <-s.open:
		return s.Stream.Next(ctx)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Where another server writes, too, a change is judged by the newest state, however far behind the cache is.
func TestCacheBehind(t *testing.T) {
	set := func(version, value string) registry.Change {
		return func(_ context.Context, current registry.Object) (registry.Object, error) {
			obj := current.DeepCopyObject().(*corev1.ConfigMap)
			obj.ResourceVersion, obj.Data = version, map[string]string{"a": value}
			return obj, nil
		}
	}
	for name, test := range map[string]func(t *testing.T, behind *registry.Resource, newest string){
		"an update of the newest version": func(t *testing.T, behind *registry.Resource, newest string) {
			if _, _, err := behind.Update(t.Context(), "default", "a", set(newest, "3"), registry.UpdateOptions{}); err != nil {
				t.Error(err)
			}
		},
		"an update to what there was before": func(t *testing.T, behind *registry.Resource, newest string) {
			item, _, err := behind.Update(t.Context(), "default", "a", set("", "1"), registry.UpdateOptions{})
			if err != nil || item.Object.GetResourceVersion() == newest || item.Object.(*corev1.ConfigMap).Data["a"] != "1" {
				t.Errorf("%v, %v", item, err)
			}
		},
		"a deletion of the newest version": func(t *testing.T, behind *registry.Resource, newest string) {
			o := registry.DeleteOptions{DeleteOptions: metav1.DeleteOptions{Preconditions: &metav1.Preconditions{ResourceVersion: &newest}}}
			if _, gone, err := behind.Delete(t.Context(), "default", "a", o); err != nil || !gone {
				t.Errorf("gone: %v, %v", gone, err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			store := memory.New(memory.Options{})
			t.Cleanup(func() { _ = store.Close() })
			ahead := follow(t, store)
			obj := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "a"}, Data: map[string]string{"a": "1"}}
			if _, err := ahead.Create(t.Context(), obj, registry.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			behind := follow(t, held{store, make(chan struct{}), new(sync.Once)})
			item, _, err := ahead.Update(t.Context(), "default", "a", set("", "2"), registry.UpdateOptions{})
			if err != nil {
				t.Fatal(err)
			}
			test(t, behind, item.Object.GetResourceVersion())
		})
	}
}

// follow runs a registry over a store until the test ends.
func follow(t *testing.T, store storage.Store) *registry.Resource {
	t.Helper()
	reg, err := registry.New(store, core.Kinds(core.Options{}), registry.Options{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- reg.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	if err := reg.WaitSynced(ctx); err != nil {
		t.Fatal(err)
	}
	res, _ := reg.Resource(corev1.Resource("configmaps"))
	return res
}
