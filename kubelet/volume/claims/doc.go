// Package claims finds what is behind the volumes of pods: the persistent volume that a claim is bound to, with
// everything that its plugin needs to mount it. Volumes without claims stand for themselves.
//
// # Errors
//
// Resolve and CheckNode fail in the words of upstream's kubelet. An error of Resolve says that a claim does not lead to
// a volume yet; UnprocessedError joins those of a pod into the text of its FailedMount event. MountError is the failure
// of a volume that was found.
//
// # Concurrency
//
// Functions may be called concurrently. A Reader must be safe for concurrent use; what it returns is shared and only
// read.
package claims
