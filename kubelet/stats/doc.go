// Package stats reports what a node and its pods use, like upstream's kubelet: the summary of
// k8s.io/kubelet/pkg/apis/stats/v1alpha1, and the metrics of /metrics/resource and /metrics/cadvisor.
//
// A Collector samples the runtime's sandboxes and containers and the machine on every call; its Run does so regularly,
// so that rates (UsageNanoCores) are known at the first call. The sizes of volumes and logs are measured less often,
// because that means visiting every file. Package activity counts what the kubelet itself does.
//
// If the runtime fails, so does the summary; filesystems and volumes that cannot be read are left out. Everything is
// safe for concurrent use.
package stats
