// Package structured chooses devices as upstream's scheduler does: with its allocator, which evaluates the selectors of
// claims and classes in CEL.
//
// It is the only package that depends on upstream's allocator.
package structured

import (
	"context"
	"errors"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/structured"

	"github.com/keelson-dev/keelson/scheduler"
	"github.com/keelson-dev/keelson/scheduler/devices"
)

// expressions is how many compiled selectors are kept.
const expressions = 100

// New returns upstream's allocator with the features that v1.37 has by default. It may be called by any goroutine.
func New() devices.Allocator {
	cache := cel.NewCache(expressions, cel.Features{EnableConsumableCapacity: true})
	return func(s devices.State) (devices.Allocate, error) {
		a, err := structured.NewAllocator(context.Background(), features(), s.Allocated, classes(s.Class), s.Slices, cache)
		if err != nil {
			return nil, err
		}
		return func(ctx context.Context, node *corev1.Node, claims []*resourcev1.ResourceClaim) ([]resourcev1.AllocationResult, error) {
			found, err := a.Allocate(ctx, node, claims)
			if errors.Is(err, structured.ErrFailedAllocationOnNode) {
				return nil, &scheduler.Refusal{Reasons: []string{err.Error()}, Unresolvable: true}
			}
			return found, err
		}, nil
	}
}

func features() structured.Features {
	return structured.Features{
		AdminAccess: true, ConsumableCapacity: true, DeviceBindingAndStatus: true, DeviceTaints: true, FractionalCapacityRange: true,
		PartitionableDevices: true, PrioritizedList: true,
	}
}

// classes gives the allocator classes by name.
type classes func(name string) (*resourcev1.DeviceClass, error)

// Get returns a class.
func (c classes) Get(name string) (*resourcev1.DeviceClass, error) { return c(name) }

// List is not used by the allocator.
func (c classes) List() ([]*resourcev1.DeviceClass, error) { return nil, errors.ErrUnsupported }
