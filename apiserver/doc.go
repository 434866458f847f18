// Package apiserver is an API server as one http.Handler: routes, discovery and all verbs over
// the kinds of a registry.Registry, in JSON, YAML and protobuf, with upstream's semantics and
// upstream's Status errors.
//
// A request passes upstream's filters, in the order of chain.go, each in a file filter_*.go: panics, the request's ID, what
// it asks for, its timeout, the audit record, authentication, impersonation, limits of what is in flight and of slow bodies,
// authorization. Then route.go finds the endpoint, dispatch.go the operation, a file per verb: it decodes and defaults,
// runs mutating admission, the kind's rules, validating admission, and the store. A file uses those below it in this order
// and never those above (TestLayers): assembly, chain, filters, routing, operations, the steps that operations are made of,
// the state of a request, encodings. What lives as long as a request is in two structs: exchange, the request and its
// response in the chain, and call, the request to one endpoint.
//
// Who sets which field is tracked (package managedfields), and server-side apply answers by it. Package registry/status
// makes the Status of an error. What a client asks for in its Accept header decides the form of an answer: the object, a table of it by the
// kind's columns, or its metadata alone. What runs behind objects, such as a pod's log or exec, is reached through a
// Connector, which package connect implements. Other servers serve versions of API groups in this one's place as
// Delegates, which package aggregator implements.
//
// The handler listens nowhere. NewTransport calls it in process, for clients that speak to it as
// they would over a network; package serving below serves it to others, with TLS, and package cors lets pages of other
// origins use it. Packages audit, metrics, tracing, health, zpages and openapi make other parts that Options takes.
package apiserver
