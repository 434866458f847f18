package registry_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/storage/memory"
)

// openLive returns ConfigMaps of a registry that keeps little history, and a live reader of them.
func openLive(t *testing.T) (*registry.Resource, *registry.Live[*corev1.ConfigMap]) {
	t.Helper()
	reg, err := registry.New(memory.New(memory.Options{}), sorts(), registry.Options{History: 8})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- reg.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-ended })
	if err := reg.WaitSynced(ctx); err != nil {
		t.Fatal(err)
	}
	res, _ := reg.Resource(configMapsResource)
	live, err := registry.NewLive[*corev1.ConfigMap](reg, configMapsResource)
	if err != nil {
		t.Fatal(err)
	}
	return res, live
}

// What a reader was given by an index stays as it was, however the objects change; what it reads then is in the order of
// keys, also in namespaces whose names begin alike.
func TestLiveIndex(t *testing.T) {
	ctx := t.Context()
	res, live := openLive(t)
	live.AddIndex("parity", func(cm *corev1.ConfigMap) []string { return strings.Split(cm.Labels["in"], "-") })
	namespaces := []string{"a", "a-b", "a0", "ab", "b"}
	type state struct{ given, was []*corev1.ConfigMap }
	var before []state
	r := rand.New(rand.NewPCG(1, 2))
	model := map[string]string{} // namespace/name → label
	for range 300 {
		ns, name := namespaces[r.IntN(len(namespaces))], fmt.Sprint("c", r.IntN(5))
		key := ns + "/" + name
		label := []string{"x", "y", "x-y", "z"}[r.IntN(4)]
		switch _, exists := model[key]; {
		case exists && r.IntN(2) == 0:
			if _, _, err := res.Delete(ctx, ns, name, registry.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
			delete(model, key)
		case exists:
			if _, _, err := res.Update(ctx, ns, name, func(_ context.Context, current registry.Object) (registry.Object, error) {
				cm := current.DeepCopyObject().(*corev1.ConfigMap)
				cm.Labels["in"] = label
				return cm, nil
			}, registry.UpdateOptions{}); err != nil {
				t.Fatal(err)
			}
			model[key] = label
		default:
			create(t, res, ns, name, map[string]string{"in": label})
			model[key] = label
		}
		for _, ns := range append([]string{"", "none", "a-"}, namespaces...) {
			var want []string
			for key, label := range model {
				if slices.Contains(strings.Split(label, "-"), "x") && (ns == "" || strings.HasPrefix(key, ns+"/")) {
					want = append(want, key)
				}
			}
			slices.Sort(want)
			given := live.ByIndexIn("parity", "x", ns)
			var got []string
			for _, cm := range given {
				got = append(got, cm.Namespace+"/"+cm.Name)
				if !slices.Contains(strings.Split(cm.Labels["in"], "-"), "x") {
					t.Fatalf("%s/%s is labelled %s", cm.Namespace, cm.Name, cm.Labels["in"])
				}
			}
			if !slices.Equal(got, want) {
				t.Fatalf("in %q are %v, want %v", ns, got, want)
			}
			if cap(given) != len(given) {
				t.Fatal("a reader that appends writes into the index")
			}
			before = append(before, state{given, slices.Clone(given)})
		}
	}
	for i, s := range before {
		if !slices.Equal(s.given, s.was) {
			t.Fatalf("what reader %d was given has changed", i)
		}
	}
	if live.ByIndexIn("none", "x", "a") != nil || live.ByIndex("parity", "none") != nil {
		t.Error("objects of an index or value that is not there")
	}
}
