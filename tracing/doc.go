// Package tracing sends OpenTelemetry spans where upstream's TracingConfiguration says (apiserver.config.k8s.io/v1, KEP-647):
// in OTLP over gRPC, without TLS, to a collector on the node. Package apiserver/tracing makes the spans of requests, package
// storage/tracing those of the store.
//
// Nothing is sent of a trace that is not sampled: a trace that a client has begun is sampled if the client says so and may
// say so; of the others, so many in a million. Spans wait in a bounded queue and are dropped if it is full or the collector
// does not answer: a collector that is down neither slows anything nor fails it.
package tracing
