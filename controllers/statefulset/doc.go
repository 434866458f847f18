// Package statefulset keeps the pods of each StatefulSet running under their names, like the statefulset-controller of
// kube-controller-manager.
//
// A pod has an ordinal, and under the names that follow from it its claims, which are created before it and survive it.
// With the policy OrderedReady, pods are created in the order of their ordinals and deleted in the opposite order, each
// when all others are available; with Parallel, in batches of 1, 2, 4 and so on. Pods that have ended are deleted and
// created again.
//
// The templates that a set has had are kept in ControllerRevisions, as many as its history limit says and those that
// its pods have. A rolling update deletes pods of another revision than the last, from the highest ordinal down to the
// partition, so that no more than maxUnavailable are not available; with OnDelete that is left to others. Owner
// references of claims follow from the retention policy of the set; the garbage collector does the rest.
//
// The cache may be stale: the controller leaves a set alone until its own last writes for it have arrived there.
//
// # Differences from upstream
//
// A revision whose data do more than replace the template is an error, since nothing writes such revisions. A change of
// a claim enqueues its set, which may wait for the end of a claim to create a pod; upstream's waits for another event.
//
// A Controller runs in a controllers.Loop, with any number of workers. Errors are those of the client; the loop retries.
package statefulset
