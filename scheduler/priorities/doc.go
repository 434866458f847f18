// Package priorities holds the priorities of upstream's default profile, by their names and
// with their scores: NodeResourcesFit (least allocated, or most), NodeResourcesBalancedAllocation,
// TaintToleration, NodeAffinity and ImageLocality. Not among them yet are those for pod
// affinity, topology spread and dynamic resources.
//
// Each type's zero value is ready to use, holds no state, and may be shared by goroutines.
// Only NodeAffinity returns errors, for preferred terms that cannot be parsed.
package priorities

import (
	"github.com/keelson-dev/keelson/scheduler"
)

// Default are upstream's default priorities with their default weights, in upstream's order,
// as far as they exist here. The slice is the caller's.
func Default() []scheduler.Weighted {
	return []scheduler.Weighted{
		{Priority: TaintToleration{}, Weight: 3},
		{Priority: NodeAffinity{}, Weight: 2},
		{Priority: NodeResourcesFit{}, Weight: 1},
		{Priority: NodeResourcesBalancedAllocation{}, Weight: 1},
		{Priority: ImageLocality{}, Weight: 1},
	}
}
