// Package namespaceautoprovision is upstream's admission plugin NamespaceAutoProvision: it creates the namespace of a new object if
// it does not exist. A dry run creates none.
//
// # Errors
//
// A namespace that cannot be created is an admission.ErrForbidden with the creator's error as its cause; one that somebody else
// created meanwhile is no failure.
//
// A Plugin has no state of its own and is safe for concurrent use.
package namespaceautoprovision
