// Package server is a kubelet's HTTP server: logs, exec, attach and port-forward of its containers,
// its pods, health, metrics and stats, at the paths and in the words of upstream's
// (https://kubernetes.io/docs/reference/node/kubelet-api/).
//
// Everybody must say who they are, and may do what the authorizer allows them on the subresources
// of this node: proxy, log, stats, metrics, healthz, pods and configz (KEP-2862). A Server serves over
// TLS alone. Exec, attach and port-forward are passed on byte by byte to where the container runtime
// streams, whatever protocol the client speaks.
//
// New starts nothing; Run serves until its context ends, and then ends all streams. A Server is safe for
// concurrent use.
package server
