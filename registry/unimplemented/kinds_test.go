package unimplemented_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/registry/registrytest"
	"github.com/keelson-dev/keelson/registry/unimplemented"
)

func TestKinds(t *testing.T) {
	registrytest.Kinds(t, unimplemented.Kinds())
}

func TestCreatesAreRefused(t *testing.T) {
	for _, k := range unimplemented.Kinds() {
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
	k := unimplemented.Kinds()[1]
	fmt.Println(k.Plural, k.Namespaced)
	fmt.Println(k.Rules.Guard(context.Background(), &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "data"}}, nil))
	// Output:
	// persistentvolumeclaims true
	// persistentvolumeclaims "data": forbidden: this server has no PersistentVolumeClaim objects: it serves the kind only to be listed and watched
}
