// Package apiserver is an API server as one http.Handler: routes, discovery and all verbs over
// the kinds of a registry.Registry, in JSON, YAML and protobuf, with upstream's semantics and
// upstream's Status errors.
//
// A request passes recovery, the authenticator, the authorizer, decoding and defaulting,
// mutating admission, the kind's rules, validating admission, and the store. This package is
// the only place where errors become metav1.Status. What a client asks for in its Accept header
// decides the form of an answer: the object, a table of it by the kind's columns, or its metadata
// alone.
//
// The handler listens nowhere. NewTransport calls it in process, for clients that speak to it as
// they would over a network; a net/http.Server serves it to others.
package apiserver
