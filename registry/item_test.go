package registry_test

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/storage/memory"
)

// TestEncodingBudget: an encoding is built once for all readers, and the oldest are dropped when they exceed
// the memory bound.
func TestEncodingBudget(t *testing.T) {
	res := open(t, memory.New(memory.Options{}), registry.Options{EncodingBytes: 1000})
	builds := map[string]int{}
	read := func(name string) {
		t.Helper()
		item, err := res.Get(t.Context(), "a", name, "")
		if err != nil {
			t.Fatal(err)
		}
		b, err := item.Encoded(registry.Form{Media: "test"}, func(o registry.Object) ([]byte, error) {
			builds[o.GetName()]++
			return make([]byte, 300), nil
		})
		if err != nil || len(b) != 300 {
			t.Fatalf("%s: %d bytes, %v", name, len(b), err)
		}
	}
	for i := range 5 {
		name := fmt.Sprintf("c%d", i)
		if _, err := res.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: name}}, registry.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		read(name)
		read(name)
	}
	for i := range 5 {
		if n := builds[fmt.Sprintf("c%d", i)]; n != 1 {
			t.Errorf("c%d was encoded %d times while it was new", i, n)
		}
	}
	read("c4")
	read("c0")
	if builds["c4"] != 1 || builds["c0"] != 2 {
		t.Errorf("three of five fit: the newest was encoded %d times, the oldest %d", builds["c4"], builds["c0"])
	}
	// Thousands of encodings later the bound still holds.
	item, err := res.Get(t.Context(), "a", "c1", "")
	if err != nil {
		t.Fatal(err)
	}
	for i := range 3000 {
		if _, err := item.Encoded(registry.Form{Media: fmt.Sprint(i)}, func(registry.Object) ([]byte, error) { return make([]byte, 900), nil }); err != nil {
			t.Fatal(err)
		}
	}
	clear(builds)
	for i := range 5 {
		read(fmt.Sprintf("c%d", i))
	}
	read("c4")
	read("c0")
	if builds["c4"] != 1 || builds["c0"] != 2 {
		t.Errorf("later: the newest was encoded %d times, the oldest %d", builds["c4"], builds["c0"])
	}
}
