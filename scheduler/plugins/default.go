// Package plugins has the plugins of upstream's default profile, with upstream's names, reasons and scores: a
// file and a type for each, which is a scheduler.Predicate, a scheduler.Priority or both. Those for volumes,
// pod affinity, topology spread and dynamic resources do not exist yet: Undecided keeps pods waiting that
// require these.
//
// Each type's zero value is ready to use, holds no state, and may be shared by goroutines. None of the
// predicates fails, and each knows which events may help a pod that it refused (scheduler.Hinter); of the
// priorities only NodeAffinity fails, for preferred terms that cannot be parsed. All but ImageLocality are
// scheduler.Local.
package plugins

import (
	"github.com/keelson-dev/keelson/scheduler"
)

// Default returns upstream's default plugins with their default weights, in upstream's order, as far as they
// exist here. The slice is the caller's: scheduler.With replaces and adds, scheduler.Without removes.
func Default() []scheduler.Enabled {
	return []scheduler.Enabled{
		{Plugin: SchedulingGates{}},
		{Plugin: NodeName{}},
		{Plugin: NodeUnschedulable{}},
		{Plugin: TaintToleration{}, Weight: 3},
		{Plugin: NodeAffinity{}, Weight: 2},
		{Plugin: NodePorts{}},
		{Plugin: NodeResourcesFit{}, Weight: 1},
		{Plugin: NodeResourcesBalancedAllocation{}, Weight: 1},
		{Plugin: ImageLocality{}, Weight: 1},
		{Plugin: Undecided{}},
		{Plugin: NodeDeclaredFeatures{}},
	}
}
