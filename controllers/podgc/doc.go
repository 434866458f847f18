// Package podgc removes pods that no kubelet will remove, like the pod-garbage-collector-controller of
// kube-controller-manager.
//
// Every 20 s it deletes, without grace period: ended pods beyond a threshold, evicted ones first and then the oldest;
// pods being deleted on nodes that are not ready and have the taint node.kubernetes.io/out-of-service (KEP-2268); pods
// on nodes that have been missing for a quarantine of 40 s, once the server confirms that they do not exist; and pods
// being deleted that were never bound to a node. Pods that have not ended are first marked Failed, and those whose node
// is gone get the condition DisruptionTarget (KEP-3329).
//
// A Controller runs in a controllers.Loop and has a single key. A pod that cannot be deleted is retried in the next
// round.
package podgc
