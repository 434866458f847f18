// Package metrics counts what passes through an API server and serves the figures in Prometheus'
// text format, under upstream's names, types and labels, so that existing dashboards and alerts
// read them.
//
// A Metrics is an apiserver.Observer and the http.Handler of /metrics; it has a registry of its own. The values of labels
// come from what is served, never from a client: a request for a resource that does not exist is not counted by resource.
// A series exists from its first observation on.
//
// Everything here is safe for concurrent use.
//
// Source: https://kubernetes.io/docs/reference/instrumentation/metrics/
package metrics
