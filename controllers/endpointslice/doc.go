// Package endpointslice writes the EndpointSlices of services that select pods, like the endpointslice-controller of
// kube-controller-manager.
//
// For each IP family of a service, and for each set of target ports of its pods, the endpoints are in slices of at most
// a hundred. A change rewrites as few slices as possible: endpoints stay in their slice; new ones first fill slices
// that change anyway, then one slice with room, then new slices. Slices are never rebalanced. Pods being deleted stay
// until they have terminated, marked as terminating. A service without endpoints has one slice without any. Hints
// follow the service's trafficDistribution (KEP-4444, KEP-3015); the older annotation for topology-aware routing is
// ignored.
//
// A Controller runs in a controllers.Loop, with any number of workers. Errors are retried fifteen times, first after a
// second, as upstream.
package endpointslice
