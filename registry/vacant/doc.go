// Package vacant has kinds that are served without ever having objects: they can be listed and watched,
// and every create is refused, with the reason.
//
// Components of others read kinds at their start that keelson does not implement. The scheduler of Kubernetes,
// for one, waits until it knows all volumes, device claims and StatefulSets before it binds the first pod. A
// control plane that makes room for such components serves these kinds, so that they learn that there are
// none. Names and versions are upstream's at Kubernetes 1.37.
package vacant
