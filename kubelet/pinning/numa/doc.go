// Package numa decides on which NUMA nodes of a machine the resources of a pod, or of a container, are to be: the policies of
// upstream's topology manager. Who hands out a resource says with hints on which sets of nodes it could; a [Policy] merges the
// hints for all resources into one.
//
// Everything here is a pure function of its arguments. Errors are for people.
package numa
