// Package pvcprotection is upstream's persistentvolumeclaim-protection-controller: it keeps claims that are being deleted
// as long as a pod uses them, by the finalizer kubernetes.io/pvc-protection, and tells in the condition Unused of bound
// claims whether one does.
//
// Claims get the finalizer from the admission plugin StorageObjectInUseProtection; those that were created without it
// get it from the controller.
//
// Reconcile returns failed requests, which are retried. A Controller starts no goroutines and is safe for concurrent use
// by the workers of a Loop.
package pvcprotection
