package services

import (
	_ "unsafe" // for go:linkname

	api "k8s.io/kubernetes/pkg/apis/core"
	"k8s.io/kubernetes/pkg/registry/core/service/ipallocator"
	"k8s.io/kubernetes/pkg/registry/core/service/portallocator"
	"k8s.io/kubernetes/pkg/registry/core/service/storage"
)

// The API server completes services in functions that it does not export. The functions declared here have their bodies
// there.

// transaction has the methods of upstream's type.
type transaction interface {
	Commit()
	Revert()
}

//go:linkname normalizeClusterIPs k8s.io/kubernetes/pkg/registry/core/service/storage.normalizeClusterIPs
func normalizeClusterIPs(after storage.After, before storage.Before)

//go:linkname patchAllocatedValues k8s.io/kubernetes/pkg/registry/core/service/storage.patchAllocatedValues
func patchAllocatedValues(after storage.After, before storage.Before)

//go:linkname makeAlloc k8s.io/kubernetes/pkg/registry/core/service/storage.makeAlloc
func makeAlloc(family api.IPFamily, ips map[api.IPFamily]ipallocator.Interface, ports portallocator.Interface) storage.Allocators

//go:linkname allocateCreate k8s.io/kubernetes/pkg/registry/core/service/storage.(*Allocators).allocateCreate
func allocateCreate(al *storage.Allocators, svc *api.Service, dryRun bool) (transaction, error)

//go:linkname allocateUpdate k8s.io/kubernetes/pkg/registry/core/service/storage.(*Allocators).allocateUpdate
func allocateUpdate(al *storage.Allocators, after storage.After, before storage.Before, dryRun bool) (transaction, error)

//go:linkname releaseAllocatedResources k8s.io/kubernetes/pkg/registry/core/service/storage.(*Allocators).releaseAllocatedResources
func releaseAllocatedResources(al *storage.Allocators, svc *api.Service)
