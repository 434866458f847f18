// Package attachdetach is upstream's persistentvolume-attach-detach-controller: it has CSI volumes attached to the nodes
// whose pods use them, and detached from nodes where no pod does.
//
// A volume is attached by a VolumeAttachment, which the external-attacher of the driver acts on; drivers whose CSIDriver
// says attachRequired: false need none. What is attached is reported in the node's status.volumesAttached, for which the
// kubelet waits, and taken out of it before a volume is detached. A volume that the node names in status.volumesInUse is
// not detached unless the node has the taint out-of-service, or has not been ready, or existed, for six minutes. A volume
// that can be on one node only is not attached to a second one; its pods there get an event that says what they wait for.
//
// What is to be done is decided by a pure function of what the caches show and what the controller remembers: its running
// attempts, and since when volumes are not needed. Nothing is lost with that memory: after a restart the attempts and
// the six minutes begin anew.
//
// Attachable volumes of upstream's own plugins (iSCSI, Fibre Channel, and those that CSI drivers have taken over) are
// left alone, as are attachments under other names than upstream's.
//
// Reconcile returns failed requests, which are retried with back-off. A Controller starts no goroutines; a Loop with one
// worker runs it.
package attachdetach
