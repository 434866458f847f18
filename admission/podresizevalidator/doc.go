// Package podresizevalidator is upstream's admission plugin PodResizeValidator: it refuses a resize of a pod for which its node would
// never have room, or whose node runs another system than Linux.
//
// # Errors
//
// A refusal is an admission.ErrForbidden with the cause NodeCapacity or UnsupportedPlatform; an object that is not a pod is an
// admission.ErrBadRequest. The cache must show every node that was acknowledged before a request.
//
// A Plugin has no state of its own and is safe for concurrent use.
package podresizevalidator
