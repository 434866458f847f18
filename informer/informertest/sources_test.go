package informertest_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/client/rest"
	"github.com/keelson-dev/keelson/informer/informertest"
	"github.com/keelson-dev/keelson/internal/testserver"
	"github.com/keelson-dev/keelson/registry"
)

// TestSourceOfTheRegistry: the source that reads the registry in process shows what a server's clients change.
// controllers/controllerstest holds it to the contract with a client in process.
func TestSourceOfTheRegistry(t *testing.T) {
	maps := corev1.SchemeGroupVersion.WithResource("configmaps")
	informertest.TestSource(t, func(t *testing.T) informertest.Backend {
		config, reg := testserver.Start(t)
		source, err := registry.Source[*corev1.ConfigMap](reg, maps.GroupResource(), registry.Selection{})
		if err != nil {
			t.Fatal(err)
		}
		c, err := rest.New(config, scheme.Scheme)
		if err != nil {
			t.Fatal(err)
		}
		return informertest.Backend{
			Source: source,
			Put: func(o *corev1.ConfigMap) {
				at := client.Target{Resource: maps, Namespace: o.Namespace, Name: o.Name}
				_, err := c.Update(t.Context(), at, o, metav1.UpdateOptions{})
				if apierrors.IsNotFound(err) {
					_, err = c.Create(t.Context(), at, o, metav1.CreateOptions{})
				}
				if err != nil {
					t.Errorf("put %s: %v", o.Name, err)
				}
			},
			Delete: func(namespace, name string) {
				if err := c.Delete(t.Context(), client.Target{Resource: maps, Namespace: namespace, Name: name}, metav1.DeleteOptions{}); err != nil {
					t.Errorf("delete %s: %v", name, err)
				}
			},
		}
	})
}
