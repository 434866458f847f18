// Package volume makes the files that the containers of a node's pods see beside their images': it
// implements kubelet.Volumes.
//
// It knows emptyDir (on disk, in memory and of huge pages), hostPath, configMap, secret,
// downwardAPI, projected with all of these, tokens of service accounts and cluster trust bundles, and image
// volumes, which the runtime mounts; and for every container /etc/hosts and the file of its
// termination message. Sub-paths of volumes are held by a mount of their own, so that nothing a container
// does to the volume afterwards leads elsewhere. Volumes that need a driver (claims, CSI, NFS and
// the like) are refused with ErrUnsupported.
//
// The layout below the directory is upstream's:
//
//	pods/UID/volumes/kubernetes.io~PLUGIN/NAME          a volume
//	pods/UID/volume-subpaths/NAME/CONTAINER/INDEX       a sub-path that a container sees
//	pods/UID/plugins/kubernetes.io~empty-dir/NAME/ready an emptyDir is complete
//	pods/UID/containers/NAME/ID                         a termination message
//	pods/UID/etc-hosts                                  what containers have as /etc/hosts
//
// On Linux it needs the kernel's openat2, of version 5.6.
//
// # Errors
//
// Prepare fails with one SetUpError for each volume that is not ready; Failures lists them, each
// the text of upstream's FailedMount event. Calling again goes on where the last call or the last process
// ended, wherever that was. Release succeeds when nothing is left; it unmounts before it deletes,
// and deletes nothing that is behind a mount: data of a hostPath or of a driver is never touched.
//
// # Concurrency
//
// A Volumes is safe for concurrent use. Calls for one pod wait for each other. It starts no
// goroutines and keeps nothing about pods that were released.
package volume
