// Package apiserver is an API server as one http.Handler: routes, discovery and all verbs over
// the kinds of a registry.Registry, in JSON, YAML and protobuf, with upstream's semantics and
// upstream's Status errors.
//
// A request passes upstream's chain (see Server.ServeHTTP): recovery, time-out, the authenticator,
// audit, impersonation, limits of what is in flight, the authorizer; then decoding and defaulting,
// mutating admission, the kind's rules, validating admission, and the store. Who sets which field
// is tracked, and server-side apply answers by it. This package is the only place where errors become metav1.Status. What a client asks for in its Accept header
// decides the form of an answer: the object, a table of it by the kind's columns, or its metadata
// alone. What leads behind objects, such as a pod's log or exec, is answered through a Connector, which
// package connect implements.
//
// The handler listens nowhere. NewTransport calls it in process, for clients that speak to it as
// they would over a network; package serving below serves it to others, with TLS. Packages audit,
// metrics, health and openapi make what Options takes beside.
package apiserver
