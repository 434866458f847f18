// Package cri is the contract between a kubelet and a container runtime: the Container Runtime Interface of Kubernetes
// (k8s.io/cri-api, runtime.v1) split into small interfaces over plain Go types, without gRPC. Every type maps one to
// one to its CRI message, so that a gRPC client, a gRPC server and a native runtime are mere adapters.
//
// A RuntimeService is the union of the parts for pods and containers, an ImageService that of the parts for images.
// Consumers should ask for the narrowest part they need. Optional parts are found by a type assertion, and may still
// fail with ErrUnsupported: EventSource, StatsReader, Streamer, LogReopener, Resizer and Configured beside a
// RuntimeService, FilesystemReader beside an ImageService. A runtime in the caller's process may be a StreamHandler and a
// LogOpener instead of naming URLs and files.
//
// Package remote is a client of runtimes such as containerd, package serve makes a server of any runtime and package streams
// one of its streams, package simulated is a runtime without containers, and package runtimetest checks any runtime against
// this contract.
//
// # Errors
//
// Implementations wrap the sentinels of this package: ErrNotFound, ErrUnavailable, ErrInvalid and
// the image errors. Everything else is a failure of that one call. When the context ends first,
// the error is the context's.
//
// # Concurrency
//
// Implementations are safe for concurrent use. Values passed in and returned belong to the caller: an implementation
// copies what it keeps.
package cri
