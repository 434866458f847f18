package registry_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/storage/memory"
)

// TestHistory: the latest changes can be watched again, up to the allowed number; fewer of large objects, but
// always the newest.
func TestHistory(t *testing.T) {
	tests := []struct {
		name    string
		options registry.Options
		size    int
		want    int // of 40 changes, how many can be watched again
	}{
		{"standard", registry.Options{}, 1000, 40},
		{"some", registry.Options{History: 7}, 1000, 7},
		{"more than all", registry.Options{History: 50}, 1000, 40},
		{"large ones", registry.Options{HistoryBytes: 100_000}, 9_000, 10},
		{"large and small", registry.Options{History: 5, HistoryBytes: 100_000}, 9_000, 5},
		{"too large", registry.Options{HistoryBytes: 100_000}, 200_000, 1},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			res := open(t, memory.New(memory.Options{}), test.options)
			revisions := changes(t, res, 40, test.size)
			for n := 1; n < len(revisions); n++ {
				w, err := res.Watch(t.Context(), registry.Selection{}, revisions[len(revisions)-1-n])
				if n > test.want {
					if !errors.Is(err, registry.ErrExpired) {
						t.Errorf("before the last %d: %v", n, err)
					}
					continue
				}
				if err != nil {
					t.Fatalf("before the last %d: %v", n, err)
				}
				if events, err := w.Next(t.Context()); err != nil || len(events) != n || events[n-1].Revision != revisions[len(revisions)-1] {
					t.Errorf("before the last %d: %d events, %v", n, len(events), err)
				}
			}
		})
	}
}

// TestHistoryMemory: changing a large object takes no more memory than allowed.
func TestHistoryMemory(t *testing.T) {
	res := open(t, memory.New(memory.Options{HistoryBytes: 1 << 20}), registry.Options{HistoryBytes: 1 << 20})
	const size = 100_000
	before := heap()
	changes(t, res, 300, size)
	if grown := heap() - before; grown > 100*size {
		t.Errorf("300 states of %d bytes take %d bytes", size, grown)
	}
}

// TestEncodingMemory: encodings are freed with the last reference to their item.
func TestEncodingMemory(t *testing.T) {
	res := open(t, memory.New(memory.Options{History: 1}), registry.Options{History: 1})
	const size = 100_000
	before := heap()
	for range 300 {
		changes(t, res, 1, size)
		for _, name := range []string{"c", "other"} {
			item, err := res.Get(t.Context(), "a", name, "")
			if err != nil {
				t.Fatal(err)
			}
			if _, err := item.Encoded(registry.Form{Media: "test"}, func(registry.Object) ([]byte, error) { return []byte("short"), nil }); err != nil {
				t.Fatal(err)
			}
			if _, _, err := res.Delete(t.Context(), "a", name, registry.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
		}
	}
	if grown := heap() - before; grown > 100*size {
		t.Errorf("300 unreferenced objects of %d bytes take %d bytes", size, grown)
	}
}

// changes creates an object and changes it, and returns the revisions, beginning with the one before the first.
func changes(t *testing.T, res *registry.Resource, n, size int) []int64 {
	t.Helper()
	other, err := res.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "other"}}, registry.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	revisions := []int64{other.Revision}
	for i := range n {
		next := &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "c", Labels: map[string]string{"n": fmt.Sprint(i)}},
			Data:       map[string]string{"x": strings.Repeat("x", size)},
		}
		var item *registry.Item
		var err error
		if i == 0 {
			item, err = res.Create(t.Context(), next, registry.CreateOptions{})
		} else {
			item, _, err = res.Update(t.Context(), "a", "c", func(context.Context, registry.Object) (registry.Object, error) {
				return next, nil
			}, registry.UpdateOptions{})
		}
		if err != nil {
			t.Fatal(err)
		}
		revisions = append(revisions, item.Revision)
	}
	return revisions
}

func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
