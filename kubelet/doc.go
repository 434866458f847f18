// Package kubelet looks after the pods of one node: it registers the node and keeps its status and
// lease, runs every pod of the node on a container runtime (package cri), and tells the API how
// the pods fare.
//
// Each pod has a worker, a goroutine that looks at the newest state of the pod and at what the
// runtime has for it, decides by pure functions what to do and how to describe the pod, and does
// it. Workers are woken by changes of the pod, by the runtime's events, by results of probes and
// by their own timers; every 20 seconds a pass over the runtime finds what was missed. A kubelet
// keeps no state of its own but for what it remembers of pods (Memory): one that is started later on
// the same runtime picks its containers up.
//
// What real containers need of the machine comes through Host, a small interface for each part:
// volumes, environment, cgroups, security, names, credentials, probes over the network, logs.
// Packages below this one implement them, and package node/host puts them together. Without a
// Host pods run in name only, which a simulated runtime makes quick and a synctest bubble
// virtual.
//
// Statuses reach the API through one sender per kubelet. It sends at once what is settled, waits
// a moment with what is about to change, and retries for as long as it takes; a pod that starts
// quickly costs one write, and one that ends a write and a deletion.
//
// # What it does not do yet
//
// Resource managers (CPU, memory, devices), resize in place, the RestartAllContainers rule, the
// graceful shutdown of the node, claims and CSI.
//
// # Errors and concurrency
//
// New refuses options that make no sense. Run returns nil when its context ends; failures of the
// server and of the runtime are retried and logged. A Kubelet is safe for concurrent use and runs
// once; when Run has returned none of its goroutines is left.
package kubelet
