// Package authorization holds keelson's authorizers to those of Kubernetes 1.37.1: RBAC's
// default policy must be the same, object by object, and on random policies and pods the RBAC
// and Node authorizers must answer random requests alike, to the word. So must the listing of
// rules, the search for who may do something, and the refusals of escalation.
//
// It is a module of its own, because it is built from k8s.io/kubernetes and replaces the
// versions of the published modules; nothing imports it. Run it in this directory:
//
//	go test .                                  # 50,000 requests each
//	go test . -requests 1000000 -seed 7        # more, and others
package authorization
