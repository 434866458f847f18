package informertest_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/client/rest"
	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/informer/informertest"
	"github.com/keelson-dev/keelson/internal/fakeapi"
	"github.com/keelson-dev/keelson/internal/testserver"
	"github.com/keelson-dev/keelson/registry"
)

// The suite holds the sources of this module that have no test of their own package for it: the
// registry's, in process, and the one of the server that controllers are tested with.
func TestSourceOfTheRegistry(t *testing.T) {
	informertest.TestSource(t, func(t *testing.T) informertest.Backend {
		config, reg := testserver.Start(t)
		source, err := registry.Source[*corev1.ConfigMap](reg, schema.GroupResource{Resource: "configmaps"}, registry.Selection{})
		if err != nil {
			t.Fatal(err)
		}
		c, err := rest.New(config, scheme.Scheme)
		if err != nil {
			t.Fatal(err)
		}
		return through(t, c, source)
	})
}

func TestSourceOfTheFakeServer(t *testing.T) {
	informertest.TestSource(t, func(t *testing.T) informertest.Backend {
		s := fakeapi.New(fakeapi.Options{})
		return through(t, s, fakeapi.Source[*corev1.ConfigMap](s, corev1.SchemeGroupVersion.WithResource("configmaps")))
	})
}

// through changes the objects of a source by a client.
func through(t *testing.T, c client.Client, source informer.Source[*corev1.ConfigMap]) informertest.Backend {
	target := func(namespace, name string) client.Target {
		return client.Target{Resource: corev1.SchemeGroupVersion.WithResource("configmaps"), Namespace: namespace, Name: name}
	}
	return informertest.Backend{
		Source: source,
		Put: func(o *corev1.ConfigMap) {
			_, err := c.Update(t.Context(), target(o.Namespace, o.Name), o, metav1.UpdateOptions{})
			if apierrors.IsNotFound(err) {
				_, err = c.Create(t.Context(), target(o.Namespace, o.Name), o, metav1.CreateOptions{})
			}
			if err != nil {
				t.Errorf("put %s: %v", o.Name, err)
			}
		},
		Delete: func(namespace, name string) {
			if err := c.Delete(t.Context(), target(namespace, name), metav1.DeleteOptions{}); err != nil {
				t.Errorf("delete %s: %v", name, err)
			}
		},
	}
}
