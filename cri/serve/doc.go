// Package serve is the counterpart of cri/remote: it serves any cri.RuntimeService and cri.ImageService as the
// Container Runtime Interface (k8s.io/cri-api, runtime.v1) over gRPC, so that any kubelet, crictl or other client of
// CRI can use it.
//
// Optional parts of a runtime are served if it has them; other calls fail with the code Unimplemented. The errors of
// package cri are mapped to the codes that clients of CRI expect, others to the code Unknown.
//
// A Server is as safe for concurrent use as its runtime.
package serve
