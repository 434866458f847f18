// Package endpointslicemirroring copies Endpoints that users write into EndpointSlices, like the
// endpointslice-mirroring-controller of kube-controller-manager.
//
// Endpoints are mirrored if there is a service of the same name without a selector, unless they are labelled
// endpointslice.kubernetes.io/skip-mirror=true or carry the record of a leader election. Each set of ports has a slice for each
// family of its addresses, with the labels and annotations of the Endpoints. At most a thousand addresses of a set of ports
// are mirrored, first those that are ready; events say so when there are more, or invalid ones. A slice that is no longer
// needed is deleted, or becomes another one of the same family.
//
// A Controller runs in a controllers.Loop, with any number of workers. Errors are retried fifteen times, first after a
// second, as upstream.
package endpointslicemirroring
