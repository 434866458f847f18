// Package openapi holds keelson's OpenAPI documents to those that the sources of Kubernetes 1.37.1
// carry, and kubectl's own code to what it finds in them.
//
// It is a module of its own, because kubectl brings much that keelson does not need; nothing
// imports it. Run it in this directory:
//
//	go test .
//	go test . -upstream DIR     # with the sources of Kubernetes in DIR
//
// Without -upstream, the go command downloads the sources: k8s.io/kubernetes v1.37.1, 50 MB.
package openapi
