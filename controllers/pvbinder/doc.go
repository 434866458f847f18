// Package pvbinder is upstream's persistentvolume-binder-controller: it binds claims to persistent volumes, asks
// external provisioners for volumes of a storage class, gives claims without a class the default one, and releases
// volumes whose claims are gone.
//
// What is to be done about a claim or a volume is decided by pure functions, from what the controller knows: its caches,
// and its own writes that these have not seen yet.
//
// Upstream's plugins of the controller manager do not exist here. Volumes to be deleted without an external provisioner,
// and all volumes to be recycled, become Failed, as those become upstream that no plugin supports; those of hostPath and
// NFS, too, which upstream recycles in pods, or deletes on the machine of its controller manager. Claims of a class with
// a provisioner kubernetes.io/…, unless that is one of those that a CSI driver replaces, stay pending.
//
// Reconcile returns failed requests, which are retried with back-off. A Controller starts no goroutines and is safe for
// concurrent use by the workers of a Loop, but acts on one claim or volume at a time, since two claims must not be given
// the same volume.
package pvbinder
