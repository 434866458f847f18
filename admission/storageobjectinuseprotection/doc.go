// Package storageobjectinuseprotection is upstream's admission plugin StorageObjectInUseProtection: new persistent
// volumes, claims and VolumeAttributesClasses get the finalizers by which controllers keep them while they are in use.
//
// It has no errors. A Plugin is safe for concurrent use.
package storageobjectinuseprotection
