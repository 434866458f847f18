// Package pinning gives containers CPUs and memory of their node to themselves: upstream's CPU manager, memory manager and topology
// manager. An [Allocator] decides when a pod is admitted, remembers what it has decided in the files of upstream's kubelet, says what
// the container runtime is to be told when it creates a container, and updates the containers that share CPUs when these change.
//
// The decisions are made by packages cpus and memory, and by package numa about where on the machine; they are pure.
//
// # Errors
//
// New fails in upstream's words if the configuration does not suit the machine, or if a file does not suit the configuration. An
// admission fails with a [Refusal]. Files that cannot be written, and containers that cannot be updated, are logged and tried again.
//
// An Allocator is safe for concurrent use.
package pinning
