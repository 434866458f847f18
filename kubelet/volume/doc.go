// Package volume provides the files that containers see besides those of their images: it implements kubelet.Volumes.
//
// It supports emptyDir (on disk, in memory and of huge pages), hostPath, configMap, secret, downwardAPI, projected with
// all of these, service account tokens, cluster trust bundles and certificates of pods, which package podcertificates
// obtains, and image volumes, which the runtime mounts; and for every container /etc/hosts and its termination message file. Each sub-path of a volume is pinned by its own mount, so
// that nothing a container does to the volume afterwards can redirect it. Package atomic replaces all files of a volume
// at once.
//
// Package claims finds the persistent volumes behind claims. Those of the host, local directories and NFS exports are
// mounted here, those of CSI drivers by a Plugin, which package csi has. A volume that was mounted stays with its pod whatever becomes of the
// claim. All others are refused with ErrUnsupported: those of other servers, local devices, and block devices without a
// file system unless the Plugin has them. Package simulated has volumes in name, for simulated nodes.
//
// The layout below the directory is upstream's:
//
//	pods/UID/volumes/kubernetes.io~PLUGIN/NAME          a volume, by its own name or that of its persistent volume
//	pods/UID/volumeDevices/kubernetes.io~PLUGIN/NAME    a persistent volume that is a device
//	pods/UID/volume-subpaths/NAME/CONTAINER/INDEX       a sub-path that a container sees
//	pods/UID/plugins/kubernetes.io~empty-dir/NAME/ready an emptyDir is complete
//	pods/UID/containers/NAME/ID                         a termination message
//	pods/UID/etc-hosts                                  what containers have as /etc/hosts
//
// On Linux it needs openat2, which the kernel has since version 5.6.
//
// # Errors
//
// Prepare fails with one SetUpError for each volume that is not ready; Failures lists them, and their texts are those
// of upstream's FailedMount events. Claims that do not lead to volumes yet are in one claims.UnprocessedError. The next call continues where the last call or the last process ended. Release
// succeeds when nothing is left; it unmounts before it deletes, and deletes nothing behind a mount: data of a hostPath
// or of a driver is never touched.
//
// # Concurrency
//
// A Volumes is safe for concurrent use; calls for the same pod wait for each other. It starts no goroutines and keeps
// nothing about released pods.
package volume
