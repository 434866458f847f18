// Package memory decides on which NUMA nodes the memory and the huge pages of containers are: the static policy of upstream's memory
// manager. A container of a guaranteed pod is given what it requests on as few NUMA nodes as possible; a node whose memory is given to
// containers that are on it alone is not used for others that need several, and the other way round.
//
// A [Policy] never changes, and its decisions are pure functions: they turn a [State] into the next one. The caller keeps the state,
// writes it down, and tells the container runtime.
//
// Errors say, in upstream's words, why a pod cannot be admitted or a state cannot be used.
package memory
