// Package cni is the contract between container runtimes and pod networks: a Network attaches a network namespace and
// returns its addresses, checks that the attachment is intact, and removes it. The types are plain Go and cover what
// the Container Network Interface specification (versions 0.4.0 to 1.1.0) defines: port mappings, bandwidth, DNS and so
// on.
//
// Package plugins implements a Network by running CNI plugin executables according to a configuration directory;
// package simulated allocates addresses and connects nothing. Package bridge sets up the simplest network of a node, a
// bridge, and writes the configuration for it; package netns creates network namespaces. Package cnitest checks a
// Network against the contract.
//
// # Errors
//
// Implementations wrap the sentinels of this package and the types PluginError, TimeoutError and
// ConfigError. When the context ends first, the error is the context's.
//
// # Concurrency
//
// Networks are safe for concurrent use: calls for different attachments run concurrently, those for the same one in
// turn. Values passed in and returned belong to the caller.
package cni
