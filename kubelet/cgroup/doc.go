// Package cgroup keeps the cgroups of pods as upstream's kubelet does with its cgroupfs driver: below
// one root those of the quality-of-service classes, below these one for each pod, below that the
// runtime's for containers.
//
//	ROOT/pod<UID>             guaranteed pods
//	ROOT/burstable/pod<UID>
//	ROOT/besteffort/pod<UID>
//
// What a pod's cgroup is limited to (PodLimits), what a runtime is told about a container
// (Resources) and which class a pod is of (Class) are pure functions. A Tree applies them to the
// machine, with cgroup v1 or v2, and implements kubelet.Cgroups. Several nodes share a machine when
// each has a root of its own.
//
// Functions and methods may be called from many goroutines; calls about one pod come one at a time.
package cgroup

import "errors"

// Errors of a Tree.
var (
	// ErrUnsupported: the machine has no cgroups.
	ErrUnsupported = errors.New("cgroups are not available")
	// ErrInvalid: a root or a pod's UID cannot be part of a path.
	ErrInvalid = errors.New("not a name for a cgroup")
	// ErrBusy: what runs in a cgroup did not end in time.
	ErrBusy = errors.New("processes in the cgroup do not end")
)
