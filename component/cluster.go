package component

import (
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Cluster is what components know about the cluster besides its objects.
type Cluster struct {
	// Resources returns the resources that the API server stores, one for each kind, without subresources. Components
	// call it again whenever they need the current list.
	Resources func() ([]Resource, error)
	// Changed returns a channel that is closed when Resources next returns something else. nil means that it does not.
	Changed func() <-chan struct{}
	// RootCA is the PEM of the authority with which pods verify the API server; empty if there is none.
	RootCA []byte
}

// Resource is a resource that the API server stores.
type Resource struct {
	schema.GroupVersionResource
	Kind       string // such as "Deployment"
	Namespaced bool   // whether its objects live in namespaces
	// Scalable is set if it has the subresource scale.
	Scalable bool
}

// GroupVersionKind returns the kind of its objects.
func (r Resource) GroupVersionKind() schema.GroupVersionKind {
	return r.GroupVersion().WithKind(r.Kind)
}
