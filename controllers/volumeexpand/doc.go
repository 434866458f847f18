// Package volumeexpand is upstream's persistentvolume-expander-controller: it says of claims that have been enlarged who
// is to enlarge their volumes.
//
// That is nobody in the controller manager: volumes of CSI drivers are expanded by the external-resizer of the driver,
// and all others by whoever else can. Claims get an event that says so. Those of volumes of a former plugin of upstream's
// also get the annotation volume.kubernetes.io/storage-resizer with the name of the CSI driver that has taken over.
//
// Reconcile returns failed requests, which are retried with back-off. A Controller starts no goroutines and is safe for
// concurrent use by the workers of a Loop.
package volumeexpand
