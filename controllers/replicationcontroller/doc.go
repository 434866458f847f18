// Package replicationcontroller keeps the desired number of pods of each ReplicationController running, like the
// replicationcontroller-controller of kube-controller-manager.
//
// It does what package replicaset does for ReplicaSets, with the same logic: it adopts and releases pods, creates missing
// ones in growing batches, deletes the least valuable of too many, and counts the existing ones in the status, except
// for those that are being deleted, which ReplicationControllers do not count.
//
// Errors are retried by the controllers.Loop that a Controller runs in, with any number of workers.
package replicationcontroller
