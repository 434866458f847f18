// Package metrics has the kinds of the API group metrics.k8s.io, which are not stored but worked out
// when they are read: NodeMetrics and PodMetrics tell what nodes and pods use, for `kubectl top` and
// the horizontal autoscaler. Upstream they are metrics-server's.
//
// A Source knows what is used; Summaries is one that asks every kubelet. A node or pod of which
// nothing is known is left out. Kinds are safe for concurrent use, and so are sources.
package metrics
