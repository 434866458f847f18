// Package namespacelifecycle is upstream's admission plugin NamespaceLifecycle: nothing is
// created in a namespace that does not exist or is being terminated, and the namespaces default,
// kube-system and kube-public cannot be deleted.
//
// It reads namespaces from a cache, and asks Options.Live when the cache does not know the
// namespace, or knows it as active within 30 seconds after somebody asked to delete it. Upstream
// first gives its cache 50 ms to learn of a missing namespace; Live makes that wait unnecessary.
//
// # Errors
//
// A missing namespace is an admission.ErrNotFound of the namespace, a terminating one an
// admission.ErrForbidden with the cause NamespaceTerminating.
//
// A Plugin may be used by many requests at once.
package namespacelifecycle
