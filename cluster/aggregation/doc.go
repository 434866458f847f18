// Package aggregation lets a cluster have other API servers serve versions of API groups, which APIServices name: Extension
// goes into cluster.Options.Extensions. A cluster that does not import this package links none of it.
//
// Garbage collection, quotas and the deletion of namespaces treat the objects of other servers as they treat the cluster's
// own. While it is not known what a server has, namespaces that are being deleted stay, and say why.
//
// Servers are reached over TLS at the endpoints of their services, or in process (Options.Handlers). Discovery and OpenAPI
// show what they serve; the versions that the cluster itself serves have APIServices, too.
package aggregation
