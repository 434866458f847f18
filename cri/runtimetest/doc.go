// Package runtimetest is the conformance suite of package cri: what every RuntimeService and
// ImageService must do, whatever runs behind it. The simulated runtime passes it, and so must any
// implementation that a kubelet is to drive.
//
// Run takes the runtime under test and images with known programs; each test uses pods of its own
// and removes them.
package runtimetest
