// Package namespaceexists is upstream's admission plugin NamespaceExists: it refuses every write in a namespace that does not
// exist. NamespaceLifecycle, which is on by default, does so for new objects only.
//
// # Errors
//
// A namespace that does not exist is an admission.ErrNotFound. The cache must show every namespace that was acknowledged before
// a request.
//
// A Plugin has no state of its own and is safe for concurrent use.
package namespaceexists
