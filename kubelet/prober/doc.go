// Package prober probes containers over the network, by HTTP, TCP and gRPC, like upstream's kubelet, including the
// texts of failures. It also calls HTTP lifecycle hooks, which have rules of their own.
//
// A [Prober] keeps no connections and no state: every probe opens a connection and closes it, with a short linger time,
// so that probing many containers does not fill the host with sockets.
//
// # Errors
//
// Probe returns nil if the probe succeeds. An [*Error] means that the probe could not be carried out and says nothing
// about the container; every other error is a failed probe, and its text follows "Liveness probe failed: " in the
// event. A redirect to another host counts as success and is reported in an event.
//
// A Prober is safe for concurrent use. A call finishes everything it started before it returns: no dial outlives a
// probe that timed out.
package prober
