// Package persistentvolumeclaimresize is upstream's admission plugin PersistentVolumeClaimResize: only bound claims may ask
// for more storage, and only if their storage class allows it.
//
// Its only error is an admission.Forbidden with upstream's message. A Plugin is safe for concurrent use.
package persistentvolumeclaimresize
