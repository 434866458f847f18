package scheduler

import (
	corev1 "k8s.io/api/core/v1"
)

// Local is the part of a Predicate or Priority whose results depend only on the node's NodeInfo and on those
// fields of the pod that make up its signature. The results of a local plugin for a node are cached for all
// pods of one signature until the node changes; other plugins are called for each pod and node. Upstream's own
// plugins are fast for this reason alone: package signature has the parts of their signatures.
//
// A local plugin keeps these rules, in all its roles; schedulertest.TestPredicate and TestPriority check them:
//
//   - Pods with equal signatures get the same results for the same NodeInfo: from Check and Score, and from what
//     Prepare and PrepareScores return, which are called for one pod and used for all of that signature.
//   - Prepare uses nothing of the Snapshot, PrepareScores neither the snapshot nor the feasible nodes.
//   - Nothing else affects the results: no time, no changing configuration, no other objects.
//
// A signature that distinguishes too many pods only costs speed; one that distinguishes too few places pods
// wrongly.
type Local interface {
	// Signature appends the fields of a pod that affect the results to b, encoded unambiguously, and returns
	// the result. The bytes may equal those of other plugins. It returns false for a pod whose results must not
	// be cached. It is called for each pod, so it should be cheaper than the results. It must not keep b.
	Signature(b []byte, pod *corev1.Pod) ([]byte, bool)
}

// Cacher is the part of a Predicate or Priority whose results depend on other nodes and the pods there, too, so that
// it cannot be Local, but which need not count them all again for each pod.
type Cacher interface {
	// Cached returns a plugin with the same name, roles and results that keeps what it counted for the next
	// pods; it finds out what has changed by comparing the NodeInfos of the snapshots. A Planner calls Cached
	// once and uses the result instead of the plugin, from one goroutine at a time. Its Hinter and Gate are not
	// called.
	Cached() Plugin
}
