// Package nodelifecycle monitors the health of nodes, like the node-lifecycle-controller of kube-controller-manager.
//
// A node is alive as long as its kubelet renews its Lease (KEP-589) or posts its status. If neither happens for the
// grace period, its conditions become Unknown and its pods unready. Conditions become taints: those that repel new pods
// (NoSchedule) at once; those that evict pods (NoExecute, not-ready and unreachable) at a limited rate per zone, and
// not at all while every node is silent, since then this side is more likely to be disconnected. The
// taint-eviction-controller (package tainteviction) acts on NoExecute taints.
//
// A Controller runs in a controllers.Loop, with any number of workers. Besides keys of nodes and pods it has two keys
// of its own, one for the periodic check of all nodes and one for the queue of nodes to taint. Failed writes are
// retried at the next check or with the loop's back-off.
package nodelifecycle
