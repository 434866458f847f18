// Package cni is the contract between what runs pods and what connects them: a Network attaches a
// network namespace and says which addresses it has got, checks that the attachment still stands,
// and takes it back. The types are plain Go and name what the Container Network Interface
// specification (versions 0.4.0 to 1.1.0) knows: port mappings, bandwidth, DNS and so on.
//
// Package plugins implements a Network by running CNI plugin executables as their configuration
// directory says, package simulated one that hands out addresses and connects nothing. Package
// bridge sets up the simplest network of a node, a bridge, and writes the configuration for it.
// Package cnitest holds what every Network must do, as a test suite.
//
// # Errors
//
// Implementations wrap the sentinels of this package and the types PluginError, TimeoutError and
// ConfigError. When the context ends first, the error is the context's.
//
// # Concurrency
//
// Networks are safe for concurrent use: calls for different attachments run side by side, those
// for the same one after the other. Values passed in and handed out belong to the caller.
package cni
