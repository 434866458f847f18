// Package static provides static pods, which a node runs from files of its own whether there is an API server or not,
// and the mirror pods that represent them in the API.
//
// A [Directory] is an informer.Source of the pods in a directory's files, so that a kubelet follows them like those of
// the API: pass it to informer.New. It uses file notifications, and also reads the whole directory periodically.
//
// As upstream, a pod read from a file is changed before use: the node's name is appended to its name; its UID is
// derived from its content, the file's name and the node's name, so that different content means a different pod; it
// tolerates all NoExecute taints; and annotations say where it comes from. It may not refer to objects of the API,
// because it must run without one.
//
// [Mirrors] maintains a mirror pod in the API for each static pod while Run runs; [Decide] decides what to do.
//
// # Errors
//
// A file that is invalid, or names a pod that another file already names, is logged once and does not affect the
// others. The pod last read from it stays until the file is removed, because a file may be in the middle of being
// written; upstream's kubelet removes the pod at the next look at the directory.
//
// A Directory and Mirrors are safe for concurrent use.
package static
