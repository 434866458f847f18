// Package defaulttolerationseconds is upstream's admission plugin DefaultTolerationSeconds: a pod without
// tolerations for nodes that are not ready or unreachable tolerates either for 300 seconds before it is
// evicted.
//
// Its only error is an admission.ErrBadRequest for an object that is not a pod. A Plugin is safe for concurrent
// use.
package defaulttolerationseconds
