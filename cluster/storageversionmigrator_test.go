package cluster_test

import (
	"bytes"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	svmv1 "k8s.io/api/storagemigration/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/storage/encryption"
	"github.com/keelson-dev/keelson/storage/encryption/aes"
	"github.com/keelson-dev/keelson/storage/memory"
)

func (w *world) migrate(name, group, resource string) {
	w.t.Helper()
	_, err := w.cs.StoragemigrationV1().StorageVersionMigrations().Create(w.ctx, &svmv1.StorageVersionMigration{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       svmv1.StorageVersionMigrationSpec{Resource: metav1.GroupResource{Group: group, Resource: resource}},
	}, metav1.CreateOptions{})
	w.check(err)
}

func (w *world) migration(name string) *svmv1.StorageVersionMigration {
	w.t.Helper()
	m, err := w.cs.StoragemigrationV1().StorageVersionMigrations().Get(w.ctx, name, metav1.GetOptions{})
	w.check(err)
	return m
}

// TestStorageVersionMigration: secrets that were stored before there was a key are encrypted by a migration; nothing is refused
// to the controller.
func TestStorageVersionMigration(t *testing.T) {
	key, err := aes.NewGCM([]byte("a key that is known to everybody"))
	if err != nil {
		t.Fatal(err)
	}
	none := errors.New("no matching prefix found")
	encrypted := encryption.FirstOf(none, encryption.Choice{Prefix: "k8s:enc:aesgcm:v1:one:", Transformer: key}, encryption.Choice{Transformer: encryption.Identity{}})
	seen := newWitness()
	o := seen.options(nodes(0))
	inner := memory.New(memory.Options{})
	var on atomic.Bool
	o.Store = encryption.New(inner, encryption.TransformersFunc(func(key string) encryption.Transformer {
		if on.Load() && strings.HasPrefix(key, "/registry/secrets/") {
			return encrypted
		}
		return encryption.Identity{}
	}))
	inBubble(t, o, func(t *testing.T, w *world) {
		plain := func() (n int) {
			for _, name := range []string{"a", "b"} {
				record, err := inner.Get(t.Context(), "/registry/secrets/default/"+name)
				w.check(err)
				if !bytes.HasPrefix(record.Value, []byte(encryption.Reserved)) {
					n++
				}
			}
			return n
		}
		for _, name := range []string{"a", "b"} {
			_, err := w.cs.CoreV1().Secrets("default").Create(w.ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
			w.check(err)
		}
		on.Store(true)
		if plain() != 2 {
			t.Fatal("there is nothing to migrate")
		}
		w.migrate("m", "", "secrets")
		time.Sleep(time.Minute)
		if m := w.migration("m"); !meta.IsStatusConditionTrue(m.Status.Conditions, "Succeeded") || plain() != 0 {
			t.Errorf("%d secrets are plain, status %+v", plain(), m.Status)
		}
		secret, err := w.cs.CoreV1().Secrets("default").Get(w.ctx, "a", metav1.GetOptions{})
		if w.check(err); len(secret.ManagedFields) > 1 {
			t.Errorf("fields are managed by %v", secret.ManagedFields)
		}
		if !seen.wrote("system:serviceaccount:kube-system:storage-version-migrator-controller") {
			t.Error("the controller did not act as itself")
		}
		for _, bad := range seen.violations(t, w.c) {
			t.Error(bad)
		}
	})
}
