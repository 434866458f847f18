// Package healthcheck answers load balancers: whether a node has endpoints of a service, and whether its proxy works.
//
// A Server is a proxy.Checker that serves the health check node ports of services on the sockets of a host, as kube-proxy
// does: 200 if the node has endpoints that are ready and its proxy keeps up, otherwise 503, with their number as a weight.
// WriteCheck is that answer alone, for who has no sockets. Handler serves /healthz and /livez, which tell of the proxy as
// a whole.
//
// # Errors and concurrency
//
// Ports that cannot be opened, because something else has them, are reported as events of the service and tried again.
// Everything here may be used concurrently; Run serves once.
package healthcheck
