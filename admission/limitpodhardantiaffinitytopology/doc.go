// Package limitpodhardantiaffinitytopology is upstream's admission plugin LimitPodHardAntiAffinityTopology: it refuses pods whose
// required anti-affinity keeps others away from more than a node, such as a whole zone.
//
// # Errors
//
// Another topology key than kubernetes.io/hostname is an admission.ErrForbidden; an object that is not a pod is an
// admission.ErrBadRequest.
//
// A Plugin has no state and is safe for concurrent use.
package limitpodhardantiaffinitytopology
