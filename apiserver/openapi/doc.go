// Package openapi serves the OpenAPI documents of an API server: /openapi/v2, /openapi/v3 and the
// documents below it, one for each group-version, in JSON and in protobuf, as kube-apiserver does
// (https://kubernetes.io/docs/concepts/overview/kubernetes-api/#openapi-interface-definition).
// kubectl reads them for explain, for client-side apply and diff, and to learn whether the server
// validates fields.
//
// Paths and operations follow from the kinds that are served. The definitions of upstream's types,
// with their documentation, defaults, enums and markers, are made from the Go types and their
// comments when this package is developed (go generate); they are embedded compressed, by Go
// package. Kinds of other types get a schema from the type's fields and JSON tags, or one that
// allows anything if they have none. Kinds that bring a schema (registry.Kind.Schema) are described
// by it, as kube-apiserver describes custom resources; a schema that cannot be written in all
// encodings is replaced by that of any object.
//
// Nothing is made before the first request for it, and nothing is kept but compressed documents.
// Everything is safe for concurrent use.
package openapi

//go:generate sh -c "cd ../../tools/openapi && go run . ../../apiserver/openapi/definitions.zip"
