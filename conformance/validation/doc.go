// Package validation compares the rules of keelson's kinds with those of the API server of
// Kubernetes, on random objects. It is a module of its own, because it is built from
// k8s.io/kubernetes, and nothing imports it.
package validation
