// Package namespacelifecycle is upstream's admission plugin NamespaceLifecycle: nothing is created in a
// namespace that does not exist or is terminating, and the namespaces default, kube-system and kube-public
// cannot be deleted.
//
// It reads namespaces from a cache, and calls Options.Live if the cache does not have the namespace, or has it
// as active for up to 30 seconds after a request to delete it. Upstream first gives its cache 50 ms to receive
// a missing namespace; Live makes that wait unnecessary.
//
// # Errors
//
// A missing namespace is an admission.ErrNotFound of the namespace, a terminating one an admission.ErrForbidden
// with the cause NamespaceTerminating.
//
// A Plugin is safe for concurrent use.
package namespacelifecycle
