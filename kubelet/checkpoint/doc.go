// Package checkpoint is what a kubelet writes down so that the next one on the same node knows what
// neither the container runtime nor the API server can tell it: which pods were admitted and with
// which resources, how long containers that keep failing have to wait, and, by way of [Store],
// which users of the node belong to which pod.
//
// # What it is for
//
// A kubelet that starts again finds its containers in the runtime and its pods in the API. Pods that
// were admitted before are not asked whether they fit: the node may have shrunk, and refusing them
// would end what runs well. Back-offs go on where they were, so that restarting the kubelet does not
// start a storm of containers that fail.
//
// Specs of pods are not kept, on purpose: what is written here is no source of pods. While the API
// server is away after a start, containers that run go on running, but none is started or restarted
// for pods of the API: they may have been deleted or moved to another node in the meantime. Only
// static pods are. Upstream's kubelet does the same.
//
// # Errors
//
// Files are replaced atomically and are on disk when a call returns. Each carries its version and a
// checksum. What is torn, altered or of a version from the future is an [ErrCorrupt] that names the
// file; the file is set aside, with ".corrupt" at the end of its name, and everything goes on as if
// there had been none.
//
// A Store and Pods are safe for concurrent use by one process.
package checkpoint
