// Package predicates holds the predicates of upstream's default profile, by their names and
// with their reasons: NodeResourcesFit, NodePorts, NodeAffinity (with spec.nodeSelector),
// NodeName, NodeUnschedulable, TaintToleration and SchedulingGates. Not among them yet are
// those for volumes, pod affinity, topology spread, dynamic resources and declared features.
//
// Each type's zero value is ready to use, holds no state, and may be shared by goroutines.
// None of them returns errors, and each tells what it depends on (scheduler.Local) and which
// events may help a pod that it refused (scheduler.Hinter).
package predicates

import (
	"github.com/keelson-dev/keelson/scheduler"
)

// Default are upstream's default predicates, in upstream's order, as far as they exist here. The
// slice is the caller's.
func Default() []scheduler.Predicate {
	return []scheduler.Predicate{
		SchedulingGates{},
		NodeName{},
		NodeUnschedulable{},
		TaintToleration{},
		NodeAffinity{},
		NodePorts{},
		NodeResourcesFit{},
	}
}
