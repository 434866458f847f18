// Package nodes compares keelson's node controllers with those of Kubernetes 1.37.1: scenarios of nodes that become
// silent, return, are cordoned and deleted run twice in virtual time, with keelson's node lifecycle, taint eviction and
// pod GC and with upstream's, each over keelson's API server. Every transition of nodes and pods must be the same, in
// the same order and within a second and a half, and so must the events. Package devices compares the checkpoints of devices.
//
// Below it, package pinning compares what containers get to themselves.
//
// It is a module of its own, because it depends on k8s.io/kubernetes and replaces the versions of the published
// modules; nothing imports it. Run it in this directory:
//
//	go test ./...
package nodes
