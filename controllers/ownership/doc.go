// Package ownership has what controllers share about controller references: finding the owner that a reference names,
// indexing dependents by their owner, and claiming dependents. Claiming adopts orphans that the owner selects and
// releases dependents that it no longer selects.
//
//	ownership.AddIndex(pods)                                  // once, before the informer runs
//	mine := ownership.ByOwner(pods, "ReplicaSet", set)        // by the reference alone
//	mine, err := ownership.Claim(ctx, api, owner, pod, all)   // by reference and selector, with writes
//
// Since the cache may be stale, Claim and Alive read the owner from the server before anything is adopted or created. A
// dependent has at most one controller: if several try to adopt it, the server lets one succeed.
//
// # Errors
//
// Errors are those of the client, wrapped. An object that is gone before it is adopted or released causes no error.
//
// # Concurrency
//
// All functions are safe for concurrent use; they do not modify the objects passed in.
package ownership
