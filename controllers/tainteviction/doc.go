// Package tainteviction deletes pods from nodes whose NoExecute taints they do not tolerate, as
// the taint-eviction-controller of kube-controller-manager does.
//
// A pod that tolerates all NoExecute taints of its node stays. When one of the tolerations that
// count has tolerationSeconds, the pod is deleted when the least of them have passed since the
// controller saw taint and pod together, unless the taints go, or the pod does, before. A
// deadline stands: taints and tolerations that come later do not bring it forward or put it off.
// Before a pod is deleted, its condition DisruptionTarget says why (KEP-3329).
//
// A Controller runs in a controllers.Loop, with any number of workers. A deletion that fails is
// tried five times and then left until something changes.
package tainteviction
