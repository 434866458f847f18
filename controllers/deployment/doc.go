// Package deployment rolls Deployments out over ReplicaSets, as the deployment-controller of
// kube-controller-manager does.
//
// Each pod template a Deployment had is a ReplicaSet, named after a hash of the template and
// numbered by its revision annotation; the one with the present template is the new one. A
// rolling update grows the new one and shrinks the others within maxSurge and maxUnavailable;
// Recreate ends all old pods first. A Deployment that is scaled during a rollout, or paused,
// scales its ReplicaSets in proportion. A template that was there before makes its ReplicaSet the
// new one again, under a new revision: that is a rollback. Old ReplicaSets beyond
// revisionHistoryLimit are deleted.
//
// What to do is computed by functions without side effects; the Controller reads from caches and
// carries it out. It runs in a controllers.Loop, with any number of workers. Errors are retried
// fifteen times with back-off, as upstream.
package deployment
