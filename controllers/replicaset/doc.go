// Package replicaset keeps the desired number of pods of each ReplicaSet running, like the replicaset-controller of
// kube-controller-manager.
//
// It adopts orphaned pods that a ReplicaSet selects and releases pods that it no longer selects. Missing pods are
// created in batches of 1, 2, 4 and so on, up to 500 at a time; after a failure there is no further batch. If there are
// too many pods, the least valuable are deleted first. The status counts the existing pods, and the condition
// ReplicaFailure says why pods could not be created.
//
// The cache may be stale. The controller waits until it sees its creations and deletions before it acts again, for at
// most five minutes, and leaves a ReplicaSet alone until its own last status write has arrived.
//
// A Controller runs in a controllers.Loop, with any number of workers.
package replicaset
