// Package nodeipam is upstream's node-ipam-controller with its range allocator: every node without networks for its pods gets
// one of each of the cluster's networks, in spec.podCIDRs. What nodes have already stays theirs, and is free again when they are
// deleted; what belongs to services is given to nobody.
//
// Networks are given in order, and those of deleted nodes again only after all others. If none is left, the event CIDRNotAvailable
// tells so, and the node gets one as soon as another node is deleted. If the node cannot be changed, three attempts later the event
// is CIDRAssignmentFailed.
//
// In three cases the controller is more careful than upstream's. A network whose assignment may or may not have succeeded stays
// reserved for that node. A node of two families that gets no network of one keeps none of the other. And a network that two
// nodes have, or that a service's network is in, stays taken when a node that has it is deleted.
//
// Reconcile returns errors, which are retried: among them a node's network outside of the cluster's. A Controller starts no
// goroutines and is safe for concurrent use by the workers of a Loop.
package nodeipam
