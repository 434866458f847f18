// Package podgc removes pods that no kubelet will, as the pod-garbage-collector-controller of
// kube-controller-manager does.
//
// Every 20 s it deletes, without grace: ended pods beyond a threshold, evicted ones first and
// then the oldest; pods being deleted on nodes that are not ready and have the taint
// node.kubernetes.io/out-of-service (KEP-2268); pods on nodes that do not exist, once these were
// missing for a quarantine of 40 s and the server confirms it; and pods being deleted that were
// never bound to a node. Pods that have not ended are marked Failed before, those whose node is
// gone with the condition DisruptionTarget (KEP-3329).
//
// A Controller runs in a controllers.Loop and has a single key. A pod that cannot be deleted is
// tried again with the next round.
package podgc
