// Package discovery has the kinds of the API group discovery.k8s.io: EndpointSlice. Its rules and messages are
// those of Kubernetes 1.37. A Kind is data without state, safe for concurrent use.
package discovery
