package namespacelifecycle_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/admission"
	"github.com/keelson-dev/keelson/admission/admissiontest"
	"github.com/keelson-dev/keelson/admission/namespacelifecycle"
	"github.com/keelson-dev/keelson/informer/memory"
)

// asking returns a plugin and the namespaces for which it asks the server, where all are active.
func asking(cache *memory.Store[*corev1.Namespace]) (p *namespacelifecycle.Plugin, asked map[string]bool) {
	asked = map[string]bool{}
	return namespacelifecycle.New(cache, namespacelifecycle.Options{
		Live: func(_ context.Context, name string) (*corev1.Namespace, bool, error) {
			asked[name] = true
			return namespace(name, corev1.NamespaceActive), true, nil
		},
	}), asked
}

func delete100(t *testing.T, p *namespacelifecycle.Plugin, wait time.Duration) {
	t.Helper()
	for n := range 100 {
		suspect(t, p, fmt.Sprintf("n%03d", n))
		time.Sleep(wait)
	}
}

func suspect(t *testing.T, p *namespacelifecycle.Plugin, name string) {
	t.Helper()
	if _, err := admissiontest.Run(t, p, admissiontest.Delete(t, namespace(name, ""))); err != nil {
		t.Fatal(err)
	}
}

// A hundred namespaces are suspect at once; the one with the least time left makes room for another, and among
// equals the first by name.
func TestSuspectsAreBounded(t *testing.T) {
	for name, wait := range map[string]time.Duration{"one after the other": time.Millisecond, "at once": 0} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cache := cached()
				for n := range 100 {
					cache.Put(namespace(fmt.Sprintf("n%03d", n), corev1.NamespaceActive))
				}
				p, asked := asking(cache)
				delete100(t, p, wait)
				suspect(t, p, "live")
				suspect(t, p, "live") // is suspect already, and pushes none out
				for n := range 100 {
					create := admissiontest.Create(t, pod(fmt.Sprintf("n%03d", n)))
					admissiontest.Admits(t, p, create, create.Object)
				}
				create := admissiontest.Create(t, pod("live"))
				admissiontest.Admits(t, p, create, create.Object)
				if len(asked) != 100 || asked["n000"] || !asked["live"] {
					t.Errorf("the server was asked for %d namespaces, n000: %v, the last: %v", len(asked), asked["n000"], asked["live"])
				}
			})
		})
	}
}

// A namespace that is terminating in the cache needs no request to the server, however recent its deletion.
func TestTerminatingIsNotSuspect(t *testing.T) {
	p, asked := asking(cached())
	suspect(t, p, "dying")
	admissiontest.Refuses(t, p, admissiontest.Create(t, pod("dying")),
		`pods "p" is forbidden: unable to create new content in namespace dying because it is being terminated`)
	if len(asked) > 0 {
		t.Errorf("the server was asked for %v", asked)
	}
}

// Namespaces that may not be deleted may be created.
func TestCreateProtected(t *testing.T) {
	p := namespacelifecycle.New(cached(), namespacelifecycle.Options{})
	create := admissiontest.Create(t, namespace("default", ""))
	if create.Operation != admission.Create {
		t.Fatal(create.Operation)
	}
	admissiontest.Admits(t, p, create, create.Object)
}
