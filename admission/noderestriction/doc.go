// Package noderestriction is upstream's admission plugin NodeRestriction: a node, a user system:node:NAME in
// the group system:nodes, may write only its own objects. It is the second defence against a stolen kubelet
// credential; the first is the Node authorizer, which decides by the request's URL and does not see what is
// written.
//
//   - Pods: a node creates only mirror pods of its own, which it owns and which refer to no other object; it
//     deletes and evicts pods bound to it, and updates their status except labels and claims.
//   - Nodes: it writes its own, but may not remove taints or set labels that attract pods.
//   - Tokens: it gets those of service accounts for pods bound to it, for audiences that the pod mounts or that an
//     authorizer allows (KEP-4412).
//   - Leases, CSINodes, resource slices, certificate requests, the status of claims: its own.
//
// Users that are not nodes are not restricted.
//
// # Errors
//
// A refusal is an admission.ErrForbidden; a missing object that the request depends on is an
// admission.ErrNotFound. A failure that time may resolve, such as the UID of a pod in a request for its
// certificate, is a plain error, so that the node retries.
//
// A Plugin keeps no state and is safe for concurrent use.
package noderestriction
