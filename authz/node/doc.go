// Package node decides what kubelets may do, as upstream's Node authorizer does: a node reads the secrets, config maps,
// claims, volumes and service accounts that the pods bound to it use, writes its own lease and CSINode, lists its own
// pods, and has the permissions common to all nodes. A kubelet is a user system:node:NAME in the group system:nodes.
//
// An Authorizer reads Sources, which informers implement, and keeps no state beside their indexes: a binding takes
// effect as soon as the informer has the pod. It never denies and never fails: what it does not allow it leaves to
// other authorizers. The content of a node's writes is checked by the admission plugin NodeRestriction, package
// admission/noderestriction. Everything here is safe for concurrent use.
package node
