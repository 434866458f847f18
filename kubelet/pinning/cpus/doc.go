// Package cpus decides which containers have CPUs of a machine to themselves: the static policy of upstream's CPU manager. A
// container of a guaranteed pod that requests whole CPUs gets them exclusively, chosen by the [Topology] so that they are close
// together; all other containers share the rest, the shared pool, which always includes the CPUs that are reserved.
//
// A [Policy] never changes, and its decisions are pure functions: they turn a [State] into the next one. The caller keeps the state,
// writes it down, and tells the container runtime.
//
// # Errors
//
// Errors say, in upstream's words, why a pod cannot be admitted or a state cannot be used. An [AlignmentError] has a reason of its
// own for the pod's status.
package cpus
