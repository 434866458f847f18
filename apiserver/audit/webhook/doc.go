// Package webhook posts audit events to a server, as kube-apiserver does by its --audit-webhook-config-file: lists of
// audit.k8s.io/v1 in JSON, to the URL in a kubeconfig file.
//
// A Sink is an audit.Sink. In mode Batch it keeps events in a buffer and posts them together while requests go on; in modes
// Blocking and BlockingStrict each request waits until its event has been posted. A post that fails, whatever the reason, is
// tried four more times, with growing pauses. What is lost in the end is counted under the names of upstream's plugins:
//
//	webhook   events of posts that failed five times, or that were not over in time when the server ended
//	buffered  events that came when the buffer was full, or after the end
//	truncate  events that are too large without objects, too (Options.Truncate)
//
// Memory is bounded by the number of events in the buffer, as upstream's, and beyond that by their size, in which events count
// until they have been posted: a server that is down or slow costs events, not memory.
//
// # Errors
//
// ErrFull and ErrEnded say why an event was not taken. A Sink logs what it loses, but not the events themselves, which may have
// bodies of requests.
//
// # Concurrency
//
// New starts nothing, Run blocks. A Sink is safe for concurrent use.
//
// Source: https://kubernetes.io/docs/tasks/debug/debug-cluster/audit/#webhook-backend
package webhook
