// Package nodes holds keelson's controllers of nodes to those of Kubernetes 1.37.1: the same
// stories of nodes that fall silent, come back, are cordoned and deleted are played twice in
// virtual time, against keelson's node lifecycle, taint eviction and pod GC and against
// upstream's, each over keelson's API server. Every node's and pod's transitions must be the
// same, in the same order and within a second and a half, and so must the events.
//
// It is a module of its own, because it is built from k8s.io/kubernetes and replaces the
// versions of the published modules; nothing imports it. Run it in this directory:
//
//	go test .
package nodes
