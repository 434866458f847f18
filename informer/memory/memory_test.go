package memory_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/informer/informertest"
	"github.com/keelson-dev/keelson/informer/memory"
)

func TestSource(t *testing.T) {
	informertest.TestSource(t, func(t *testing.T) informertest.Backend {
		store := memory.New[*corev1.ConfigMap]()
		return informertest.Backend{
			Source: store,
			Put:    func(o *corev1.ConfigMap) { store.Put(o) },
			Delete: func(namespace, name string) {
				if _, ok := store.Delete(namespace, name); !ok {
					t.Errorf("%s/%s is not there", namespace, name)
				}
			},
			Expire: store.Trim,
		}
	})
}

func configMap(name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

func TestHistoryIsBounded(t *testing.T) {
	store := memory.New[*corev1.ConfigMap](memory.Options{History: 3})
	_, first, err := store.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	versions := []string{first}
	for range 5 {
		versions = append(versions, store.Put(configMap("x")).ResourceVersion)
	}
	for n, version := range versions {
		stream, err := store.Watch(t.Context(), version)
		if kept := n >= 2; !kept {
			if !errors.Is(err, informer.ErrExpired) {
				t.Errorf("Watch from %s: %v", version, err)
			}
			continue
		}
		if err != nil {
			t.Fatalf("Watch from %s: %v", version, err)
		}
		if n < 5 {
			if events, err := stream.Next(t.Context()); err != nil || len(events) != 5-n {
				t.Errorf("from %s: %d events, %v", version, len(events), err)
			}
		}
		stream.Close()
		if _, err := stream.Next(t.Context()); !errors.Is(err, io.EOF) {
			t.Errorf("Next after Close: %v", err)
		}
	}
}

func TestObjectsAreCopiedIn(t *testing.T) {
	store := memory.New[*corev1.ConfigMap]()
	given := configMap("x")
	stored := store.Put(given)
	if given == stored || given.ResourceVersion != "" || stored.ResourceVersion == "" {
		t.Errorf("given %v, stored %v", given.ResourceVersion, stored.ResourceVersion)
	}
	if got, ok := store.Get("", "x"); !ok || got != stored {
		t.Errorf("Get returned %v, %v", got, ok)
	}
	gone, ok := store.Delete("", "x")
	if !ok || gone == stored || gone.ResourceVersion <= stored.ResourceVersion {
		t.Errorf("Delete returned version %s after %s", gone.ResourceVersion, stored.ResourceVersion)
	}
	if _, ok := store.Delete("", "x"); ok {
		t.Error("deleted twice")
	}
	if _, ok := store.Get("", "x"); ok {
		t.Error("there after Delete")
	}
}

func TestBadVersions(t *testing.T) {
	store := memory.New[*corev1.ConfigMap]()
	for _, version := range []string{"", "x", "-1", "99"} {
		if _, err := store.Watch(t.Context(), version); err == nil || errors.Is(err, informer.ErrExpired) {
			t.Errorf("Watch from %q: %v", version, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := store.Watch(ctx, "1"); !errors.Is(err, context.Canceled) {
		t.Errorf("Watch after the context: %v", err)
	}
}

func Example() {
	store := memory.New[*corev1.ConfigMap]()
	_, version, _ := store.List(context.Background())
	store.Put(configMap("x"))
	store.Delete("", "x")

	stream, _ := store.Watch(context.Background(), version)
	defer stream.Close()
	events, _ := stream.Next(context.Background())
	for _, e := range events {
		fmt.Println(e.Type, e.Object.Name)
	}
	// Output:
	// ADDED x
	// DELETED x
}
