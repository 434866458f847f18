// Package pvprotection is upstream's persistentvolume-protection-controller: it keeps persistent volumes that are being
// deleted as long as they are bound, by the finalizer kubernetes.io/pv-protection.
//
// Volumes get the finalizer from the admission plugin StorageObjectInUseProtection; those that were created without it
// get it from the controller.
//
// Reconcile returns failed requests, which are retried. A Controller starts no goroutines and is safe for concurrent use
// by the workers of a Loop.
package pvprotection
