// Package storageobjectinuseprotection is upstream's admission plugin StorageObjectInUseProtection: new persistent
// volumes and claims get the finalizers by which controllers keep them while they are in use.
//
// Upstream's plugin does so for VolumeAttributesClasses, too; this one does not, as long as no controller here would
// remove their finalizer.
//
// It has no errors. A Plugin is safe for concurrent use.
package storageobjectinuseprotection
