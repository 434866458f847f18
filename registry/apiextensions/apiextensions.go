package apiextensions

import (
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/keelson-dev/keelson/registry"
)

// Finalizer holds a definition until the objects of its kind are gone. The first delete adds it.
const Finalizer = apiextensionsv1.CustomResourceCleanupFinalizer

// Kinds returns the kinds of the group in discovery order.
func Kinds() []registry.Kind {
	return []registry.Kind{customResourceDefinitions()}
}
