// Package unimplemented has kinds that are served but never have objects: they can be listed and watched, and every
// create is refused with the reason.
//
// Third-party components read kinds at their start that keelson does not implement. The Kubernetes scheduler, for one,
// waits until it has listed all device claims before it binds the first pod. A control plane that admits such components
// serves these kinds as empty lists. Names and versions are upstream's at Kubernetes 1.37.
package unimplemented
