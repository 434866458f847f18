// Package kubelet runs the pods of one node: it registers the node, maintains its status and lease, runs every pod of
// the node on a container runtime (package cri), and reports the pods' statuses to the API.
//
// Each pod has a worker, a goroutine that takes the newest state of the pod and of its containers in the runtime,
// decides what to do and what status to report (package decision: a pure function), and does it. Workers are woken by
// changes to the pod, by the runtime's events, by probe results and by their own timers; every 20 seconds a pass over
// the runtime finds what was missed. A kubelet keeps no state of its own except what it remembers about pods (Memory):
// a kubelet started later on the same runtime picks up its containers.
//
// What real containers need from the machine comes through Host, with a small interface for each part. Packages below
// this one implement them, and package node/host puts them together: volume, dra (the devices of resource claims),
// deviceplugin (those of device plugins), environment, objects (the config maps and secrets that pods refer to), cgroup,
// security, resolv (DNS and hostnames), credentials (for image registries), prober (network probes), logs, stats, eviction,
// shutdown (of the machine), garbage (collection of images and containers), static (pods from files), checkpoint (state that
// must outlive the process), machine, pinning (CPUs and memory that containers have to themselves); server serves the node's
// own HTTP API. Without a Host, pods run in name only: fast on a simulated runtime, and in virtual time inside a synctest
// bubble.
//
// Statuses reach the API through one sender per kubelet. It sends settled statuses at once, holds back briefly those
// that are about to change, and retries for as long as it takes; a pod that starts quickly costs one write, and a pod
// that ends costs a write and a deletion.
//
// # Resizes
//
// A pod keeps the resources it was admitted with until the node has room for those that its spec asks for: a resize that
// has to wait is granted when others leave or shrink, in upstream's order, and put in force without restarts as far as
// the containers' resize policies allow. What was granted outlives the kubelet in Host.Memory, or in the pod's status.
// On a runtime that is no cri.Resizer, resizes are Infeasible.
//
// # Not implemented
//
// The topology hints of devices. Pods that need the rule RestartAllContainers are rejected, with a reason in their status that names
// it; so are those with resource claims if Host.Devices has no Claims.
//
// # Errors and concurrency
//
// New rejects invalid options. Run returns nil when its context ends; failures of the server and of the runtime are
// retried and logged. A Kubelet is safe for concurrent use and runs once; when Run has returned, none of its goroutines
// is left.
package kubelet
