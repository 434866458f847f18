// Package nodedeclaredfeaturevalidator is upstream's admission plugin NodeDeclaredFeatureValidator (KEP-5328): it refuses an update or a
// resize of a pod on a node if that takes a feature which the node's kubelet does not declare in status.declaredFeatures.
//
// # Errors
//
// A feature that the node does not declare, and a node that does not exist, is an admission.ErrForbidden; an object that is not a
// pod is an admission.ErrBadRequest. The cache must show every node that was acknowledged before a request.
//
// A Plugin has no state of its own and is safe for concurrent use.
package nodedeclaredfeaturevalidator
