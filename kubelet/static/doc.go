// Package static is about pods that a node runs because a file on it says so, whether there is an
// API server or not: where they come from, and the mirror pods by which they are seen in the API.
//
// A [Directory] is an informer.Source of the pods in the files of a directory, so that a kubelet
// follows them as it follows those of the API: give it to informer.New. It is told of changes by
// the file system and looks at the whole directory once in a while besides.
//
// A pod of a file is changed as upstream does it before anybody sees it: its name ends in the
// node's, its UID is made of its content, the file's name and the node's, so that another content
// is another pod; it tolerates all NoExecute taints, and annotations say where it comes from. It may
// not refer to objects of the API: it has to run without one.
//
// [Mirrors] keeps a mirror pod in the API for each static pod, for as long as Run runs; what it does
// is decided by [Decide].
//
// # Errors
//
// A file that is no good, or names a pod that another file names already, is logged once and does
// not disturb the others. Unlike upstream's kubelet, which removes its pod with the next look at the
// directory, the pod that was last read from it stays: a file that is just being written is no
// reason to end what runs. Only when the file is gone its pod is.
//
// A Directory and Mirrors are safe for concurrent use.
package static
