// Package endpointslice writes the EndpointSlices of services that select pods, as the
// endpointslice-controller of kube-controller-manager does.
//
// For each IP family of a service, and for each set of ports its pods lead to, the endpoints stand
// in slices of at most a hundred. A change rewrites as few slices as it can: endpoints stay in the
// slice they are in, new ones fill slices that change anyway, then one that has room, then new
// slices; slices are never rebalanced. Pods being deleted stay until they end, marked as
// terminating. A service without endpoints has one slice without any. Hints follow the service's
// trafficDistribution (KEP-4444, KEP-3015); the older annotation for topology-aware routing is not
// looked at.
//
// A Controller runs in a controllers.Loop, with any number of workers. Errors are retried
// fifteen times, first after a second, as upstream.
package endpointslice
