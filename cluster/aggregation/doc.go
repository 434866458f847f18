// Package aggregation lets a cluster have other API servers serve versions of API groups, which APIServices name: Extension
// goes into cluster.Options.Extensions. A cluster that does not import this package links none of it.
//
// Servers are reached over TLS at the endpoints of their services, or in process (Options.Handlers). Discovery and OpenAPI
// v3 show what they serve; the versions that the cluster itself serves have APIServices, too.
//
// # Differences from upstream
//
// The document /openapi/v2 describes only what the cluster itself serves. Garbage collection, quotas and the deletion of
// namespaces do not look at objects that other servers have.
package aggregation
