// Package tainteviction deletes pods from nodes whose NoExecute taints they do not tolerate, like the
// taint-eviction-controller of kube-controller-manager.
//
// A pod that tolerates all NoExecute taints of its node stays. If matching tolerations have tolerationSeconds, the pod
// is deleted when the lowest of them have passed since the controller saw taint and pod together, unless the taints or
// the pod are removed before. A deadline is fixed: later taints and tolerations do not move it. Before a pod is
// deleted, its condition DisruptionTarget says why (KEP-3329).
//
// A Controller runs in a controllers.Loop, with any number of workers. A failed deletion is tried five times and then
// left until something changes.
package tainteviction
