// Package host assembles a node of real containers on this machine: a kubelet with all its parts,
// over a container runtime that serves CRI. The runtime and the network of pods are its
// caller's.
//
// The node's parts (package node) are what it has to do with the cluster, which may be in this process or behind a
// connection. Options are where on the machine it keeps what, so that several nodes can share one.
//
// # What it leaves
//
// Containers, and what they need, outlive Run: a later Run of the same node picks them up. Clean
// removes what is left of a node whose containers are gone.
package host
