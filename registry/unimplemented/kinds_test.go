package unimplemented_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	resourcev1 "k8s.io/api/resource/v1"
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
	kinds := unimplemented.Kinds()
	k := kinds[len(kinds)-1]
	fmt.Println(k.Plural, k.Namespaced)
	fmt.Println(k.Rules.Guard(context.Background(), &resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: "gpu"}}, nil))
	// Output:
	// resourceslices false
	// resourceslices.resource.k8s.io "gpu": forbidden: this server has no ResourceSlice objects: it serves the kind only to be listed and watched
}
