// Package nodelifecycle watches over the health of nodes, as the node-lifecycle-controller of
// kube-controller-manager does.
//
// A node is alive as long as its kubelet renews its Lease (KEP-589) or posts its status. When
// neither was seen for the grace period, its conditions become Unknown and its pods lose their
// readiness. Conditions show as taints: those that keep new pods away (NoSchedule) at once, those
// that drive pods off (NoExecute, not-ready and unreachable) at a limited rate for each zone, and
// not at all while every node is silent, since then it is more likely this side that is cut off.
// The taint-eviction-controller (package tainteviction) acts on NoExecute taints.
//
// A Controller runs in a controllers.Loop, with any number of workers. Besides keys of nodes and
// of pods it has two keys of its own, one for the periodic look at all nodes and one for the
// tainting that waits for its turn. Failed writes are tried again with the next look or with the
// loop's back-off.
package nodelifecycle
