// Package audit records who asked an API server for what, and what came of it.
//
// A Policy, written as upstream's audit.k8s.io/v1 Policy, decides which requests are recorded, at
// which stages and how fully. A Log applies it: it begins a Record for a request, which the server
// fills on the request's way and which goes to a Sink at every stage. Events have upstream's shape
// (k8s.io/apiserver/pkg/apis/audit/v1), so that its consumers read them. File keeps them as JSON
// lines in a file that is rotated, Memory keeps them for tests.
//
// Headers are never recorded, and of tokens in a URL only that there was one. Bodies are recorded
// where the policy says so: a policy that asks for the bodies of secrets or tokens gets them.
//
// A nil *Record is that of a request nobody records: all its methods may be called and do
// nothing. Everything here is safe for concurrent use.
//
// Source: https://kubernetes.io/docs/tasks/debug/debug-cluster/audit/
package audit
