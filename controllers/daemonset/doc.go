// Package daemonset keeps a pod of each DaemonSet running on every node that it selects, like the daemonset-controller of
// kube-controller-manager.
//
// A node gets a pod if it has the name, the labels and the fields that the template asks for and no taint that the pod
// does not tolerate; pods of DaemonSets tolerate by default that a node is not ready, unreachable, unschedulable or under
// pressure. The controller leaves it to the scheduler to bind the pods: their node affinity names the node. Pods are
// created in growing batches, up to 250 at a time. Of several pods on a node the oldest stays. Pods that have failed are
// deleted with a back-off of 1 s to 15 min for each node, and replaced.
//
// Each template that a DaemonSet has had is kept in a ControllerRevision, whose hash is a label of the pods. With the
// strategy RollingUpdate, pods of older templates are deleted as far as maxUnavailable allows, or, with maxSurge, new ones
// are started beside them first. Revisions beyond the history limit that no pod uses are deleted.
//
// The controller adopts orphaned pods and revisions that a DaemonSet selects and releases those that it no longer
// selects. The caches may be stale: it waits until it sees its creations and deletions before it acts again, for at most
// five minutes.
//
// Errors are retried by the controllers.Loop that a Controller runs in, with any number of workers.
package daemonset
