// Package podtolerationrestriction is upstream's admission plugin PodTolerationRestriction: the pods of a namespace get the
// tolerations of its annotation scheduler.alpha.kubernetes.io/defaultTolerations, else the cluster's, and may have only those that
// its annotation scheduler.alpha.kubernetes.io/tolerationsWhitelist covers, else the cluster's list. Both annotations are JSON lists
// of tolerations. Pods that are not best effort tolerate memory pressure of their node.
//
// # Errors
//
// A namespace that does not exist is an admission.ErrNotFound; an object that is not a pod is an admission.ErrBadRequest. As
// upstream's, a toleration outside of the list, and an annotation that is not JSON, is an error without a status of its own
// (ErrNotAllowed for the former). The cache must show every namespace that was acknowledged before a request.
//
// A Plugin has no state of its own and is safe for concurrent use.
package podtolerationrestriction
