// Package aggregator lets other API servers serve versions of API groups, as APIServices say: an Aggregator is the
// apiserver.Delegates of a server. Requests are forwarded over TLS to an endpoint of the APIService's service, with the
// headers X-Remote-User, X-Remote-Uid, X-Remote-Group and X-Remote-Extra-* that say whose they are, and with the client
// certificate by which the other server knows that it may believe them. Connections that are upgraded, and streams such
// as watches, pass through.
//
// Requests for an APIService that is not available, or whose service has no endpoint, are answered with 503 and "service
// unavailable". Whether it is available is for package controllers/apiservice to find out, by Check.
//
// What the other servers say of themselves, in discovery and OpenAPI v3, is read by Refresh, within limits of time and
// size, and kept: while a server does not answer, discovery shows what it last said and that this is stale.
//
// An Aggregator is safe for concurrent use. It has no goroutines that outlive a call.
package aggregator
