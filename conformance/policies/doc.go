// Package policies compares keelson's admission policies with the plugins of k8s.io/apiserver. It makes random policies of
// both kinds and random admissions, and passes them to both: the Status of a refusal, warnings, audit annotations and the
// object that mutating policies leave must be the same.
//
// It is a module of its own, because it depends on k8s.io/kubernetes and replaces the versions of the published
// modules; nothing imports it. Run it in this directory:
//
//	go test .                                   # 1,000 policies of each kind
//	go test -policies 10000 -seed 7 .           # more, and others
//
// Upstream has no order among policies, bindings and parameters. So each admission is for one of each.
package policies
