// Package runtimetest is the conformance suite of package cri: what every RuntimeService and ImageService must do. The
// simulated runtime passes it, and so does containerd through package remote; so must any implementation for a kubelet.
//
// Run takes the runtime under test and images with known programs; each test uses pods of its own and removes them.
// Optional parts are tested if the runtime has them. With Options.Shell, an image with a shell, the suite also checks
// what processes see: their environment, users, capabilities, mounts, namespaces, network, limits and logs. Those tests
// need root on Linux and a runtime on the same host, because they read its files, connect to its pods and mount.
package runtimetest
