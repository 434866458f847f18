// Package replicaset keeps as many pods running as each ReplicaSet asks for, as the
// replicaset-controller of kube-controller-manager does.
//
// It adopts orphaned pods that a ReplicaSet selects and releases pods it selects no longer. Pods
// that are missing are created in batches of 1, 2, 4 and so on up to 500 at a time, and not
// another batch after a failure; of pods that are too many those go first that are missed least.
// The status counts what is there, and ReplicaFailure says why pods could not be made.
//
// The cache may be late. What was created and deleted is waited for before the next act, for
// five minutes at most, and a ReplicaSet whose own status write has not come back is left alone.
//
// A Controller runs in a controllers.Loop, with any number of workers.
package replicaset
