// Package limitranger is upstream's admission plugin LimitRanger: it gives the containers of a new pod the default requests
// and limits of the LimitRanges in its namespace, which it notes in the annotation kubernetes.io/limit-ranger, and refuses
// pods, resizes of pods, and claims of volumes that request too little or too much.
//
// # Errors
//
// What breaks a limit is an admission.ErrForbidden with everything that does, in a fixed order; an object of another type than
// its resource is an admission.ErrBadRequest. The cache must show every LimitRange that was acknowledged before a request.
//
// A Plugin has no state of its own and is safe for concurrent use.
package limitranger
