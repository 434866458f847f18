// Package node decides what kubelets may do, as upstream's Node authorizer does: a node reads
// the secrets, config maps, claims, volumes and service accounts that the pods bound to it use,
// writes its own lease and CSINode, lists its own pods, and for the rest has what every node
// has. A kubelet is a user system:node:NAME in the group system:nodes.
//
// An Authorizer reads Sources, which informers satisfy as they are, and keeps no state beside
// their indexes: a binding counts as soon as the pod does. Whatever it does not allow it leaves to
// others: it never denies and never fails. What a node may write into the objects it may write
// is for the admission plugin NodeRestriction, package admission/noderestriction. Everything here is
// safe for concurrent use.
package node
