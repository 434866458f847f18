// Package storageversionmigrator writes the objects of a resource anew, so that they are stored in its current storage version
// and with its current encryption, like the storage-version-migrator-controller of kube-controller-manager.
//
// A StorageVersionMigration asks for that. Three controllers see to it, each to be run in a controllers.Loop of its own. A
// Runner starts one migration at a time for each resource, and marks the CustomResourceDefinition, if there is one; when all
// objects have been written, it removes the versions in which none is stored any more. Versions notes up to which resource
// version objects have to be written. A Controller writes those: by patches that change nothing, which a server
// stores only if the object would look different now. Objects that others have written in the meantime need nothing more.
//
// The status tells how the migration went. A failure that a repetition can mend is retried; any other ends the migration.
// A Loop may have any number of workers.
package storageversionmigrator
