// Package apiextensions has the kind of the API group apiextensions.k8s.io, CustomResourceDefinition. Its rules and
// messages are those of Kubernetes 1.37, most of them by way of upstream's library, so this package is heavy: import
// it only to serve the kind. It stores definitions and nothing more; whoever serves the kinds that they define
// accepts their names, establishes them and, once a deletion has begun, removes the objects and then Finalizer.
// Package registry/custom has the rules of those kinds.
//
// A Kind is data without state, safe for concurrent use.
package apiextensions
