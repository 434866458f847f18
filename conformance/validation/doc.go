// Package validation compares keelson's pod rules with those of the API server of Kubernetes 1.37.1. It makes random,
// nearly valid pods and templates and passes them to both: defaults, the results of a create or an update of each
// subresource, and every error's type, field, value and text must be the same. It also compares the expectations of
// podspec's own tests with the API server.
//
// It is a module of its own, because it depends on k8s.io/kubernetes and replaces the versions of the published
// modules; nothing imports it. Run it in this directory:
//
//	go test .                            # 3,000 of each
//	go test -pods 100000 -seed 7 .       # more, and others
//
// A difference names the test and the number of the pod; run it alone with -run.
package validation
