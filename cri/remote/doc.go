// Package remote is a client of any container runtime that serves the Container Runtime Interface
// (k8s.io/cri-api, runtime.v1) on a unix socket: containerd, CRI-O or what package cri/serve
// serves. A Runtime is a cri.RuntimeService and cri.ImageService with every optional part.
//
// # Connection
//
// The first call connects, and so does every call after a lost connection, at once: a unix socket costs nothing to try.
// Calls do not wait for an absent runtime; they fail with cri.ErrUnavailable and name the socket, the cause and what to
// do. A stream of events ends with cri.ErrUnavailable and can be opened again.
//
// How long a call may take is up to its context.
//
// # Errors
//
// Errors keep the text of gRPC, "rpc error: code = NotFound desc = …", which users of Kubernetes know from events, and
// wrap the sentinels of package cri; see there. Other failures of a runtime are returned unchanged.
//
// A Runtime is safe for concurrent use.
package remote
