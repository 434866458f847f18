// Package flowcontrol has the kinds of the API group flowcontrol.apiserver.k8s.io, FlowSchema and PriorityLevelConfiguration,
// and what keeps the objects of them that every API server has. Package upkeep below it does. What the kinds mean is in
// the package flowcontrol at the root of the module.
package flowcontrol
