package vacant_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/registry/registrytest"
	"github.com/keelson-dev/keelson/registry/vacant"
)

func TestKinds(t *testing.T) {
	registrytest.Kinds(t, vacant.Kinds())
}

// TestPrefix: the place in the store is upstream's, whose replication controllers are called otherwise there.
func TestPrefix(t *testing.T) {
	for _, k := range vacant.Kinds() {
		if want := map[string]string{"replicationcontrollers": "controllers"}[k.Plural]; want != "" && k.Prefix != want {
			t.Errorf("%s are stored below %q", k.Plural, k.Prefix)
		}
	}
}

func TestCreatesAreRefused(t *testing.T) {
	for _, k := range vacant.Kinds() {
		obj := k.New()
		obj.SetName("x")
		err := k.Rules.Guard(t.Context(), obj, nil)
		var e *registry.Error
		if !errors.As(err, &e) || !errors.Is(err, registry.ErrForbidden) || e.Resource != k.GroupResource() || e.Name != "x" {
			t.Errorf("%s: %v", k.Plural, err)
		}
	}
}

func ExampleKinds() {
	k := vacant.Kinds()[1]
	fmt.Println(k.Plural, k.Namespaced)
	fmt.Println(k.Rules.Guard(context.Background(), &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "data"}}, nil))
	// Output:
	// persistentvolumeclaims true
	// persistentvolumeclaims "data": forbidden: this server has no PersistentVolumeClaim objects: it serves the kind for those who watch it
}
