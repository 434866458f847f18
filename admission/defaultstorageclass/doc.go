// Package defaultstorageclass is upstream's admission plugin DefaultStorageClass: it gives new claims of storage that name no
// class the class that is marked as the default. Of several it is the newest, and of those the first by name. A claim that asks
// for no class names the empty one.
//
// # Errors
//
// The plugin refuses nothing. The cache must show every class that was acknowledged before a request.
//
// A Plugin has no state of its own and is safe for concurrent use.
package defaultstorageclass
