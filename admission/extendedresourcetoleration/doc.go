// Package extendedresourcetoleration is upstream's admission plugin ExtendedResourceToleration: a pod that requests an extended
// resource, such as example.com/gpu, tolerates the taint of the same name. Nodes with such devices can thus be kept for the pods
// that need them.
//
// # Errors
//
// An object that is not a pod is an admission.ErrBadRequest; nothing else is refused.
//
// A Plugin has no state and is safe for concurrent use.
package extendedresourcetoleration
