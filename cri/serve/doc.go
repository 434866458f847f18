// Package serve is the other side of cri/remote: it serves any cri.RuntimeService and
// cri.ImageService as the Container Runtime Interface (k8s.io/cri-api, runtime.v1) over gRPC, so
// that a kubelet of another make, crictl or any other client of CRI can drive it.
//
// Optional parts of a runtime are served where it has them; calls for others fail with the code
// Unimplemented. The errors of package cri become the codes that clients of CRI expect, others
// the code Unknown.
//
// A Server is safe for concurrent use as far as the runtime behind it is.
package serve
