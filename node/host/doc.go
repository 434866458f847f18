// Package host assembles a node of real containers on this machine: a kubelet with all its parts, over a container
// runtime that serves CRI. The caller provides the runtime and the pod network.
//
// The node's parts (package node) are its access to the cluster, which may be in this process or remote. Options set
// the node's paths on the machine, so that several nodes can share one.
//
// # What remains
//
// Containers, and what they need, survive Run: a later Run of the same node adopts them. Clean removes what is left of
// a node whose containers are gone.
package host
