// Package kubernetesservice keeps what an API server says of itself in its own API: the service
// kubernetes in the namespace default, through which pods reach the server, with its Endpoints and
// EndpointSlice, and the ServiceCIDR that cluster IPs come from.
//
// Several servers on one store, among them upstream's, each keep a lease beside the objects; the
// endpoints are those whose lease is renewed. A server that ends takes its own away; that of one that
// crashed ends by the store where it is a storage.Lessor, else by the clock of the others.
//
// The part belongs to the server and writes past authorization and admission, through the
// registry: it needs no identity and no role. Errors of its work are logged and met by trying
// again; a Service runs once, and is not otherwise used concurrently.
package kubernetesservice
