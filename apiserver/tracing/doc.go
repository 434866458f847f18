// Package tracing follows requests to an API server with OpenTelemetry spans, as upstream's API server does.
//
// A request is a span of kind server, named by method and resource such as "POST /api/v1/namespaces/{:namespace}/pods", or
// by the method alone, with the attributes of HTTP and the audit ID. It is in the context of all that serves the request:
// package storage/tracing continues it, and otelhttp in what is asked over HTTP.
//
// A client may send a trace context (https://www.w3.org/TR/trace-context). The span is a part of that trace only for the
// groups system:masters and system:monitoring; for others it begins a trace of its own, whose sampling is up to the
// provider, and links to theirs.
package tracing
