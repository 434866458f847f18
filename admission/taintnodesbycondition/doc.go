// Package taintnodesbycondition is upstream's admission plugin TaintNodesByCondition: it gives a new node the
// taint node.kubernetes.io/not-ready:NoSchedule until the node lifecycle controller has seen that the node is
// ready and removes the taint. Without the plugin, pods could be scheduled to a node before its state is known.
//
// # Errors
//
// An object that is not a Node is an admission.ErrForbidden.
//
// A Plugin keeps no state and is safe for concurrent use.
package taintnodesbycondition
