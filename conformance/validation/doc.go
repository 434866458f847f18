// Package validation holds the rules of keelson's pods to those of the API server of Kubernetes
// 1.37.1. It makes random pods and templates, nearly valid ones, and gives them to both: what
// defaults fill in, what a create or an update of each subresource makes of the object, and
// every error by type, field, value and words must be the same. It holds the expectations of
// podspec's own tests to the API server as well.
//
// It is a module of its own, because it is built from k8s.io/kubernetes and replaces the
// versions of the published modules; nothing imports it. Run it in this directory:
//
//	go test .                            # 3,000 of each
//	go test -pods 100000 -seed 7 .       # more, and others
//
// A difference names the test and the number of the pod; run it alone with -run.
package validation
