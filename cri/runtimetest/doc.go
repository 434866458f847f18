// Package runtimetest is the conformance suite of package cri: what every RuntimeService and
// ImageService must do, whatever runs behind it. The simulated runtime passes it, and containerd
// through package remote, and so must any implementation that a kubelet is to drive.
//
// Run takes the runtime under test and images with known programs; each test uses pods of its own
// and removes them. Optional parts are tested where the runtime has them. With Options.Shell, an image
// with a shell, the runtime is held to what processes see, too: their environment, users,
// capabilities, mounts, namespaces, network, limits and logs. Those tests need root on Linux, and a
// runtime on the same host, for they look at its files, reach its pods and mount.
package runtimetest
