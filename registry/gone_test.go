package registry_test

import (
	"context"
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/storage"
	"github.com/keelson-dev/keelson/storage/memory"
)

// contested is a store in which another writer always comes first, and which ignores contexts.
type contested struct{ storage.Store }

func (s contested) Create(context.Context, string, []byte) (int64, error) {
	return 0, storage.ErrExists
}

func (s contested) Update(context.Context, string, []byte, int64) (int64, error) {
	return 0, storage.ErrConflict
}

func (s contested) Delete(context.Context, string, int64) (int64, error) {
	return 0, storage.ErrConflict
}

func (s contested) Revision(ctx context.Context) (int64, error) {
	return s.Store.Revision(context.WithoutCancel(ctx))
}

// TestWriteEndsWithContext: a write that loses to others is retried only as long as its client waits.
func TestWriteEndsWithContext(t *testing.T) {
	store := memory.New(memory.Options{})
	before := open(t, store, registry.Options{})
	there := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "there"}}
	if _, err := before.Create(t.Context(), there, registry.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	res := open(t, contested{store}, registry.Options{})
	update := func(name string) func(context.Context, func()) error {
		return func(ctx context.Context, try func()) error {
			_, _, err := res.Update(ctx, "a", name, func(context.Context, registry.Object) (registry.Object, error) {
				try()
				return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: name}, Data: map[string]string{"k": "v"}}, nil
			}, registry.UpdateOptions{Create: true})
			return err
		}
	}
	for name, write := range map[string]func(ctx context.Context, try func()) error{
		"update": update("there"), "create on update": update("new"),
		"delete": func(ctx context.Context, try func()) error {
			_, _, err := res.Delete(ctx, "a", "there", registry.DeleteOptions{Admit: func(context.Context, registry.Object) error {
				try()
				return nil
			}})
			return err
		},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		tries := 0
		err := write(ctx, func() {
			switch tries++; {
			case tries == 3:
				cancel()
			case tries > 10:
				panic(name + ": it does not stop")
			}
		})
		if tries != 3 || err == nil {
			t.Errorf("%s: %d tries, %v", name, tries, err)
		}
		if name == "create on update" && !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", name, err)
		}
		cancel()
	}
}
