// Package podnodeselector is upstream's admission plugin PodNodeSelector: the pods of a namespace get the node selector that the
// namespace's annotation scheduler.alpha.kubernetes.io/node-selector names, else the cluster's default, and may be limited to
// a list of labels.
//
// # Errors
//
// A pod whose own selector contradicts, or names labels that its namespace may not use, is an admission.ErrForbidden; a namespace that
// does not exist is an admission.ErrNotFound. An annotation that is no selector fails the request. The cache must show every
// namespace that was acknowledged before a request.
//
// A Plugin has no state of its own and is safe for concurrent use.
package podnodeselector
