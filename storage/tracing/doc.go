// Package tracing continues the traces of requests into a store: a read or a write that is made while a span of
// OpenTelemetry records, in its context, is a span of its own. Without one a call costs nothing but a look at the context.
package tracing
