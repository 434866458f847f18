package pods

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-dev/keelson/admission"
)

// Namespaces is a cache of namespaces.
type Namespaces interface {
	// Get returns the namespace of that name; the first argument is empty.
	Get(namespace, name string) (*corev1.Namespace, bool)
}

// Namespace returns the namespace of a request's object, or an admission.ErrNotFound.
func Namespace(all Namespaces, r *admission.Request) (*corev1.Namespace, error) {
	if ns, ok := all.Get("", r.Namespace); ok {
		return ns, nil
	}
	return nil, admission.NotFound(schema.GroupResource{Resource: "namespaces"}, r.Namespace)
}
