// Package openapi compares keelson's OpenAPI documents with those in the sources of Kubernetes 1.37.1, and tests
// kubectl's own code with them. Documents about custom kinds are compared with those of upstream's builder.
//
// It is a module of its own, because kubectl has many dependencies that keelson does not need; nothing imports it. Run
// it in this directory:
//
//	go test .
//	go test . -upstream DIR     # with the sources of Kubernetes in DIR
//
// Without -upstream, the go command downloads the sources: k8s.io/kubernetes v1.37.1, 50 MB.
package openapi
