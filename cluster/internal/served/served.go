// Package served tells admission plugins of a cluster about the kinds that it serves. It is safe for concurrent use.
package served

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-dev/keelson/admission"
	"github.com/keelson-dev/keelson/registry"
)

// Kinds are the kinds of a registry.
type Kinds struct{ Registry *registry.Registry }

// Versions returns the versions in which the objects of a stored resource, or of a subresource, are served. Subresources
// that have a type of their own are of one version.
func (k Kinds) Versions(stored schema.GroupVersionResource, subresource string) []admission.Version {
	res, ok := k.Registry.Resource(stored.GroupResource())
	if !ok || subresource != "" && !hasView(res, subresource) {
		return nil
	}
	var out []admission.Version
	for _, v := range res.Versions() {
		version := admission.Version{Kind: v.GroupVersion.WithKind(v.Names.Kind), Resource: v.GroupVersion.WithResource(v.Plural)}
		if v != res {
			version.FromStored, version.ToStored = converted(v.FromStored), converted(v.ToStored)
		}
		out = append(out, version)
	}
	return out
}

func hasView(res *registry.Resource, subresource string) bool {
	_, ok := res.Sub.Views[subresource]
	return ok
}

func converted(convert func(context.Context, registry.Object) (registry.Object, error)) func(runtime.Object) (runtime.Object, error) {
	return func(obj runtime.Object) (runtime.Object, error) {
		return convert(context.Background(), obj.(registry.Object))
	}
}

// SetDefaults fills the unset fields of an object of a stored version.
func (k Kinds) SetDefaults(kind schema.GroupVersionKind, obj runtime.Object) {
	of, ok := obj.(registry.Object)
	if !ok {
		return
	}
	for _, res := range k.Registry.Resources() {
		if res.GroupVersion.WithKind(res.Names.Kind) == kind && res.Rules.Default != nil {
			res.Rules.Default(of)
		}
	}
}

// Find returns the resource that serves a kind.
func (k Kinds) Find(kind schema.GroupVersionKind) (*registry.Resource, bool) {
	for _, res := range k.Registry.Resources() {
		if res.GroupVersion.Group != kind.Group {
			continue
		}
		for _, v := range res.Versions() {
			if v.Names.Kind == kind.Kind && v.GroupVersion.Version == kind.Version {
				return v, true
			}
		}
	}
	return nil, false
}
