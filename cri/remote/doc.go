// Package remote is a client of any container runtime that serves the Container Runtime Interface
// (k8s.io/cri-api, runtime.v1) on a unix socket: containerd, CRI-O or what package cri/serve
// serves. A Runtime is a cri.RuntimeService and cri.ImageService with every optional part.
//
// # Connection
//
// The first call connects, and every call after a lost connection connects again, at once: a unix
// socket costs nothing to try. Calls do not wait for a runtime that is away; they fail with
// cri.ErrUnavailable and say where the socket was looked for, why it failed and what to do.
// A stream of events ends with cri.ErrUnavailable and can be opened anew.
//
// How long a call may take is up to its context.
//
// # Errors
//
// Errors keep the text of gRPC, "rpc error: code = NotFound desc = …", which is what users of
// Kubernetes know from events, and are told apart by the sentinels of package cri; see package
// cri's documentation. Failures that a runtime gives no name to come as they are.
//
// A Runtime is safe for concurrent use.
package remote
