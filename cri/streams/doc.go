// Package streams serves exec, attach and port-forward of a container runtime in this process, by the protocols of kubectl:
// SPDY and WebSocket. It makes a cri.Streamer of a cri.StreamHandler.
//
// A Server names URLs and is the http.Handler that serves them. How it is reached is up to the caller: over the network, or
// as kubelet/server's Options.Streams without one. A URL holds for one connection and a minute. Errors are those of package
// cri. A Server starts nothing by itself, and is safe for concurrent use.
package streams
