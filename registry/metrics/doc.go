// Package metrics has the kinds of the API group metrics.k8s.io, which are computed at each read: NodeMetrics
// and PodMetrics report the resource usage of nodes and pods, for `kubectl top` and the horizontal pod
// autoscaler. Upstream, metrics-server serves them.
//
// A Source provides the usage; Summaries is a Source that asks every kubelet. Nodes and pods of unknown usage
// are omitted. Kinds are safe for concurrent use, and so are sources.
package metrics
