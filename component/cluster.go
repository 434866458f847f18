package component

import (
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Cluster is what components know of the cluster beside its objects.
type Cluster struct {
	// Resources are those that the API server stores, one for each kind, without subresources. It is asked again when
	// somebody needs to know what there is now.
	Resources func() ([]Resource, error)
	// RootCA is the PEM of the authority by which pods verify the API server; empty where there is none.
	RootCA []byte
}

// Resource is one that is stored.
type Resource struct {
	schema.GroupVersionResource
	Kind       string
	Namespaced bool
	// Scalable tells that it has the subresource scale.
	Scalable bool
}

// GroupVersionKind is that of its objects.
func (r Resource) GroupVersionKind() schema.GroupVersionKind {
	return r.GroupVersion().WithKind(r.Kind)
}
