// Package csi mounts volumes of CSI drivers, persistent and inline ones, for package kubelet/volume, whose Plugin Drivers
// is.
//
// Drivers register through the kubelet's plugin directory, as with upstream's kubelet: their registrar serves
// pluginregistration.v1 at a socket in plugins_registry, and the node's CSINode, labels and annotation then say what the
// driver calls the node. Volumes are staged at plugins/kubernetes.io/csi/<driver>/<hash>/globalmount and published at
// pods/<uid>/volumes/kubernetes.io~csi/<volume>/mount, with a vol_data.json beside each; that is all a later process needs
// to know, and it publishes nothing twice. What has to be attached is reported in the node's status.volumesInUse before
// anything else is done with it, and awaited in status.volumesAttached. Volumes whose claims have grown are expanded, and
// volumes of drivers with requiresRepublish published again, when their pods are synced.
//
// A driver with nodeAllocatableUpdatePeriodSeconds (KEP-4876) is asked that often how many volumes the node can have, and at
// once when a volume is not attached because they are too many; the pod that waits for that volume is then rejected.
//
// Every call of a driver ends after two minutes. Calls about one volume follow each other; a driver that hangs keeps the
// pods waiting that have its volumes, and no others.
//
// Raw devices are not supported: pods that want one get an event.
//
// Errors of SetUp and TearDown are those of the driver, as gRPC statuses, or of the files; the caller repeats the call.
// All methods are safe for concurrent use. Run registers drivers until its context ends.
package csi
