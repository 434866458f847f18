// Package noderestriction is upstream's admission plugin NodeRestriction: a node, a user
// system:node:NAME in the group system:nodes, writes only what is its own. It is the second half of
// what keeps a stolen kubelet from taking the cluster; the first is the Node authorizer, which
// decides by the request's URL and does not see what is written.
//
//   - Pods: a node creates mirror pods of itself alone, which it owns and which need no other object;
//     it deletes and evicts pods bound to it, and updates their status but for labels and claims.
//   - Nodes: it writes its own, without taking taints off or labels on that steer pods to it.
//   - Tokens: it gets those of service accounts for pods bound to it, for audiences that the pod
//     mounts, or that an authorizer lets it ask for (KEP-4412).
//   - Leases, CSINodes, resource slices, certificate requests, the status of claims: its own.
//
// Users that are no nodes are not restricted.
//
// # Errors
//
// A refusal is an admission.ErrForbidden; an object that the request depends on and that does not
// exist is an admission.ErrNotFound. What may be a matter of time, such as the UID of a pod in a
// request for its certificate, is a plain error, so that the node tries again.
//
// A Plugin keeps no state and may be used by many requests at once.
package noderestriction
