// Package stats tells what a node and its pods use, as upstream's kubelet does: the summary of
// k8s.io/kubelet/pkg/apis/stats/v1alpha1, and the metrics of /metrics/resource and /metrics/cadvisor.
//
// A Collector asks the runtime about sandboxes and containers and the machine about itself whenever
// it is asked; its Run does so regularly, so that rates (UsageNanoCores) are known when somebody asks
// for the first time. How much room volumes and logs take is measured at most once in a while, because
// it means looking at every file.
//
// A failing runtime fails a summary; a filesystem or volume that cannot be read is left out of it.
// All of it is safe for concurrent use.
package stats
