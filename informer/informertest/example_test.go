package informertest_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/informer/informertest"
	source "github.com/keelson-dev/keelson/informer/memory"
)

// How the test of a source, here the one in memory, holds it to the contract; t is the test's.
func ExampleTestSource() {
	contract := func(t *testing.T) {
		informertest.TestSource(t, func(t *testing.T) informertest.Backend {
			store := source.New[*corev1.ConfigMap]()
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
	_ = contract
}
