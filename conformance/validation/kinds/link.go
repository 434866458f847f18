package kinds

import (
	_ "unsafe" // for go:linkname

	api "k8s.io/kubernetes/pkg/apis/core"
	"k8s.io/kubernetes/pkg/registry/core/service/ipallocator"
	"k8s.io/kubernetes/pkg/registry/core/service/portallocator"
	"k8s.io/kubernetes/pkg/registry/core/service/storage"
)

// The API server completes services in functions beside its allocators that it does not export. The functions declared
// here have their bodies there.

//go:linkname normalizeClusterIPs k8s.io/kubernetes/pkg/registry/core/service/storage.normalizeClusterIPs
func normalizeClusterIPs(after storage.After, before storage.Before)

//go:linkname patchAllocatedValues k8s.io/kubernetes/pkg/registry/core/service/storage.patchAllocatedValues
func patchAllocatedValues(after storage.After, before storage.Before)

//go:linkname makeAlloc k8s.io/kubernetes/pkg/registry/core/service/storage.makeAlloc
func makeAlloc(family api.IPFamily, ips map[api.IPFamily]ipallocator.Interface, ports portallocator.Interface) storage.Allocators

//go:linkname initIPFamilyFields k8s.io/kubernetes/pkg/registry/core/service/storage.(*Allocators).initIPFamilyFields
func initIPFamilyFields(al *storage.Allocators, after storage.After, before storage.Before) error

// CompleteService prepares a service like the API server of a cluster with IPv4 services before its strategy runs; old
// is nil in a create.
func CompleteService(svc, old *api.Service) error {
	after, before := storage.After{Service: svc}, storage.Before{Service: old}
	if old != nil {
		patchAllocatedValues(after, before)
	}
	normalizeClusterIPs(after, before)
	al := makeAlloc(api.IPv4Protocol, map[api.IPFamily]ipallocator.Interface{api.IPv4Protocol: nil}, nil)
	return initIPFamilyFields(&al, after, before)
}
