// Package deployment rolls out Deployments over ReplicaSets, like the deployment-controller of kube-controller-manager.
//
// Each pod template that a Deployment has had is a ReplicaSet, named after a hash of the template and numbered by its
// revision annotation; the one with the current template is the new one. A rolling update grows the new set and shrinks
// the others within maxSurge and maxUnavailable; Recreate first deletes all old pods. If a Deployment is scaled while
// paused or during a rollout, its ReplicaSets are scaled in proportion. Going back to an earlier template makes its
// ReplicaSet the new one again, under a new revision: this is a rollback. Old ReplicaSets beyond revisionHistoryLimit
// are deleted.
//
// Decisions are made by functions without side effects; the Controller reads from caches and carries them out. It runs
// in a controllers.Loop, with any number of workers. Errors are retried fifteen times with back-off, as upstream.
package deployment
