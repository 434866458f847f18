// Package cri is the contract between a kubelet and what runs containers: the Container Runtime
// Interface of Kubernetes (k8s.io/cri-api, runtime.v1) cut into small interfaces over plain Go
// types, without gRPC behind it. Every type maps one to one to its CRI message, so that a gRPC
// client, a gRPC server and a native runtime are adapters and nothing else.
//
// A RuntimeService is the union of the parts that start and stop things, an ImageService that of
// the parts that deal with images. Consumers ask for the narrowest part they need. Parts that not
// every runtime has are found by a type assertion, and may yet fail with ErrUnsupported:
// EventSource, StatsReader, Streamer, LogReopener, Resizer and Configured beside a RuntimeService,
// FilesystemReader beside an ImageService.
//
// Package remote is a client of runtimes such as containerd, package serve makes a server of any
// runtime, package simulated is one without containers, and package runtimetest holds all of them to
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
// Implementations are safe for concurrent use. Values passed in and handed out belong to the
// caller: an implementation copies what it keeps.
package cri
