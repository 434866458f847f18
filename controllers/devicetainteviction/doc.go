// Package devicetainteviction deletes pods that use devices with NoExecute taints which their claims do not tolerate, like
// the device-taint-eviction-controller of kube-controller-manager.
//
// Taints come from ResourceSlices, where drivers set them, and from DeviceTaintRules. A pod that runs with a reserved,
// allocated claim is deleted as soon as a device of the claim is tainted, or when the lowest tolerationSeconds of matching
// tolerations have passed since the taint was added, unless the taint is removed before. Its condition DisruptionTarget
// says why. The condition EvictionInProgress of a rule counts the pods that it concerns; a rule with effect None is told
// once what it would do.
//
// Decisions are functions of what the caches show. A Controller starts no goroutines and is safe for concurrent use by the
// workers of a Loop; failures are returned by Reconcile and retried.
package devicetainteviction
