// Package defaulttolerationseconds is upstream's admission plugin DefaultTolerationSeconds: a
// pod that says nothing about a node that is not ready or not reachable tolerates either for
// 300 seconds before it is evicted.
//
// Its only error is an admission.ErrBadRequest for an object that is not a pod. A Plugin may be
// used by many requests at once.
package defaulttolerationseconds
