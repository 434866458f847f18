// Package authorization compares keelson's authorizers with those of Kubernetes 1.37.1: RBAC's default policy must be
// the same, object by object, and on random policies and pods the RBAC and Node authorizers must give the same answers
// to random requests, including the texts. The same applies to the listing of rules, the search for who may do
// something, and refused escalations. Requests belong to the same FlowSchemas, priority levels and flows.
//
// It is a module of its own, because it depends on k8s.io/kubernetes and replaces the versions of the published
// modules; nothing imports it. Run it in this directory:
//
//	go test .                                  # 50,000 requests each
//	go test . -requests 1000000 -seed 7        # more, and others
//	go test . -run '^$' -bench RBAC            # decisions with 10,000 bindings, side by side
package authorization
