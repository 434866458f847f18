// Package audit records who asked an API server for what, and what came of it.
//
// A Policy, written as upstream's audit.k8s.io/v1 Policy, decides which requests are recorded, at
// which stages and in how much detail. A Log applies it: it opens a Record for each request, which the server
// fills in while it serves the request, and which goes to a Sink at each stage. Events are upstream's
// (k8s.io/apiserver/pkg/apis/audit/v1), so that their consumers can read them. File appends them as JSON
// lines to a file that is rotated, Memory keeps them for tests. Package webhook posts them to a server.
//
// Headers are never recorded, and of a token in a URL only that there was one. Bodies are recorded
// where the policy says so: a policy that asks for the bodies of secrets or tokens gets them.
//
// A nil *Record is the record of a request that is not recorded: its methods do nothing. Everything
// here is safe for concurrent use.
//
// Source: https://kubernetes.io/docs/tasks/debug/debug-cluster/audit/
package audit
