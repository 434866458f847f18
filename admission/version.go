package admission

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Version is a version in which objects are served.
type Version struct {
	Kind     schema.GroupVersionKind
	Resource schema.GroupVersionResource
	// FromStored and ToStored convert without changing their argument. They are nil in the stored version.
	FromStored, ToStored func(runtime.Object) (runtime.Object, error)
}

// Requested returns the version in which the client named the object, without its conversions.
func (r *Request) Requested() Version {
	if r.RequestedResource.Empty() {
		return Version{Kind: r.Kind, Resource: r.Resource}
	}
	return Version{Kind: r.RequestedKind, Resource: r.RequestedResource}
}

// Convert returns an object of the request, or nil, in a version.
func (v *Version) Convert(r *Request, obj runtime.Object) (runtime.Object, error) {
	switch {
	case obj == nil || v.Kind == r.Kind:
		return obj, nil
	case v.FromStored == nil:
		return nil, fmt.Errorf("unable to convert to %v: unknown kind", v.Resource)
	}
	return v.FromStored(obj)
}
