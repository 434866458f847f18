package unimplemented

import (
	"context"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-dev/keelson/registry"
)

// Kinds returns the kinds that the Kubernetes scheduler, controller manager and kubelet read at their start and that
// no other package has.
func Kinds() []registry.Kind {
	all := devices()
	for i, k := range all {
		resource, name := k.GroupResource(), k.Names.Kind
		all[i].Rules.Guard = func(_ context.Context, obj, _ registry.Object) error {
			return &registry.Error{
				Err: registry.ErrForbidden, Resource: resource, Name: obj.GetName(),
				Message: "this server has no " + name + " objects: it serves the kind only to be listed and watched",
			}
		}
	}
	return all
}

// kind returns a cluster-scoped kind; inNamespaces makes it a namespaced one.
func kind(gv schema.GroupVersion, names registry.Names, obj func() registry.Object, list func() runtime.Object) registry.Kind {
	return registry.Kind{Names: names, GroupVersion: gv, Prefix: names.Plural, New: obj, NewList: list}
}

func inNamespaces(k registry.Kind) registry.Kind {
	k.Namespaced = true
	return k
}

func devices() []registry.Kind {
	return []registry.Kind{
		kind(resourcev1.SchemeGroupVersion,
			registry.Names{Kind: "DeviceClass", Plural: "deviceclasses", Singular: "deviceclass"},
			func() registry.Object { return &resourcev1.DeviceClass{} },
			func() runtime.Object { return &resourcev1.DeviceClassList{} }),
		kind(resourcev1.SchemeGroupVersion,
			registry.Names{Kind: "DeviceTaintRule", Plural: "devicetaintrules", Singular: "devicetaintrule"},
			func() registry.Object { return &resourcev1.DeviceTaintRule{} },
			func() runtime.Object { return &resourcev1.DeviceTaintRuleList{} }),
		inNamespaces(kind(resourcev1.SchemeGroupVersion,
			registry.Names{Kind: "ResourceClaim", Plural: "resourceclaims", Singular: "resourceclaim"},
			func() registry.Object { return &resourcev1.ResourceClaim{} },
			func() runtime.Object { return &resourcev1.ResourceClaimList{} })),
		inNamespaces(kind(resourcev1.SchemeGroupVersion,
			registry.Names{Kind: "ResourceClaimTemplate", Plural: "resourceclaimtemplates", Singular: "resourceclaimtemplate"},
			func() registry.Object { return &resourcev1.ResourceClaimTemplate{} },
			func() runtime.Object { return &resourcev1.ResourceClaimTemplateList{} })),
		kind(resourcev1.SchemeGroupVersion,
			registry.Names{Kind: "ResourceSlice", Plural: "resourceslices", Singular: "resourceslice"},
			func() registry.Object { return &resourcev1.ResourceSlice{} },
			func() runtime.Object { return &resourcev1.ResourceSliceList{} }),
	}
}
