// Package vacprotection is upstream's volumeattributesclass-protection-controller: it gives every VolumeAttributesClass the
// finalizer kubernetes.io/vac-protection, and removes it from a class that is being deleted once no volume and no claim has,
// asks for, or is being changed to the class. It relies on its caches, as upstream does: a claim that was created just before
// may not be seen.
//
// Reconcile returns failed updates, which are retried. A Controller starts no goroutines and is safe for concurrent use by the
// workers of a Loop.
package vacprotection
