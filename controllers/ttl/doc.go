// Package ttl is upstream's ttl-controller: it tells kubelets in the annotation node.alpha.kubernetes.io/ttl how many seconds
// they may use a secret or config map without asking for it again. The more nodes, the longer: nothing up to 100 nodes, 15 s up
// to 500, 30 s up to 1000, 60 s up to 2000, and else 300 s. As nodes go, the time becomes shorter below nine tenths of these
// numbers. A change reaches each node with the next change of the node itself, such as the kubelet's next report.
//
// Reconcile returns failed patches, which are retried. A Controller starts no goroutines and is safe for concurrent use by the
// workers of a Loop.
package ttl
