// Package checkpoint persists what the next kubelet on the same node can learn from neither the container runtime nor
// the API server: which pods were admitted and with which resources, the back-offs of failing containers, and, through
// [Store], which user IDs of the node belong to which pod.
//
// # What it is for
//
// A restarted kubelet finds its containers in the runtime and its pods in the API. Pods that were admitted before are
// not checked again: the node may have shrunk, and rejecting them would kill running pods. Back-offs continue where
// they were, so that restarting the kubelet does not restart all failing containers at once.
//
// Pod specs are deliberately not kept: a checkpoint is not a source of pods. While the API server is unreachable after
// a start, running containers keep running, but none is started or restarted for pods of the API, which may have been
// deleted or moved to another node in the meantime; only static pods are. Upstream's kubelet does the same.
//
// # Errors
//
// Files are replaced atomically and are on disk when a call returns. Each has a version and a checksum. A file that is
// torn, altered or of a newer version gives an [ErrCorrupt] that names it; the file is renamed, with ".corrupt"
// appended, and then counts as missing.
//
// A Store and Pods are safe for concurrent use by one process.
package checkpoint
