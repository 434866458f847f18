// Package cgroup manages the cgroups of pods like the cgroupfs driver of upstream's kubelet: below one root those of
// the quality-of-service classes, below these one for each pod, and below that the runtime's for its containers.
//
//	ROOT/pod<UID>             guaranteed pods
//	ROOT/burstable/pod<UID>
//	ROOT/besteffort/pod<UID>
//
// The limits of a pod's cgroup (PodLimits), a container's resources (Resources) and a pod's class (Class) are computed
// by pure functions. A Tree applies them to the machine, with cgroup v1 or v2, and implements kubelet.Cgroups. Several
// nodes can share a machine if each has a root of its own.
//
// Functions and methods are safe for concurrent use, but calls for the same pod must not overlap.
package cgroup

import "errors"

// Errors of a Tree.
var (
	// ErrUnsupported means that the machine has no cgroups.
	ErrUnsupported = errors.New("cgroups are not available")
	// ErrInvalid means that a root or a pod's UID cannot be part of a path.
	ErrInvalid = errors.New("not a name for a cgroup")
	// ErrBusy means that the processes in a cgroup did not end in time.
	ErrBusy = errors.New("processes in the cgroup do not end")
)
