// Package taintnodesbycondition is upstream's admission plugin TaintNodesByCondition: a new node
// keeps pods away by the taint node.kubernetes.io/not-ready:NoSchedule until the
// node-lifecycle-controller has seen that it is ready and takes the taint off. Without the plugin
// pods could be scheduled onto a node before anybody has looked at it.
//
// # Errors
//
// An object that is no Node is an admission.ErrForbidden.
//
// The Plugin keeps no state and may be used by many requests at once.
package taintnodesbycondition
