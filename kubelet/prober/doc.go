// Package prober probes containers over the network: HTTP, TCP and gRPC, as upstream's kubelet
// does it, down to the words in which it reports a failure. It also calls the HTTP hooks of a
// container's lifecycle, which follow rules of their own.
//
// A [Prober] keeps no connections and no state: every probe opens a connection and closes it, with
// a short linger, so that the probes of many containers do not leave a host full of sockets.
//
// # Errors
//
// Probe returns nil for a container that answers well. An [*Error] means that the question could
// not be put, and nothing is known of the container; everything else is the container's failure,
// and its text is what the event says after "Liveness probe failed: ". An answer that is neither
// good nor bad, a redirect to another host, counts as good and is told in an event.
//
// A Prober is safe for concurrent use. A call ends all that it began before it returns: nothing goes on
// dialing a container that did not answer in time.
package prober
