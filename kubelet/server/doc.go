// Package server is a kubelet's HTTP server: logs, exec, attach and port-forward for its containers, its pods, health,
// metrics and stats, with the paths and texts of upstream's (https://kubernetes.io/docs/reference/node/kubelet-api/).
//
// Every request must be authenticated, and the authorizer must allow it on the subresources of this node: proxy, log,
// stats, metrics, healthz, pods and configz (KEP-2862). A Server serves only over TLS. Exec, attach and port-forward
// are proxied byte by byte to the container runtime's streaming server, whatever protocol the client speaks; a runtime in this
// process can have them served by a handler instead.
//
// New starts nothing; Run serves until its context ends, and then ends all streams. A Server is safe for
// concurrent use.
package server
