// Package kubernetesservice maintains an API server's own objects in its API: the service kubernetes in the
// namespace default, through which pods reach the server, with its Endpoints and EndpointSlice, and the
// ServiceCIDR of cluster IPs.
//
// Several servers on one store, including upstream's, each keep a lease beside the objects; the endpoints are
// the servers with a current lease. A server that shuts down deletes its own lease; that of a crashed server
// expires in the store if it is a storage.Lessor, otherwise by the clocks of the other servers.
//
// The package is part of the server and bypasses authorization and admission, through the registry: it needs no
// identity and no role. It logs errors and retries; a Service runs once, and is not otherwise safe for
// concurrent use.
package kubernetesservice
