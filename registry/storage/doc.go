// Package storage has the kinds of the API group storage.k8s.io: CSINode, in which a kubelet reports the CSI
// drivers of its node, CSIDriver, CSIStorageCapacity, StorageClass, VolumeAttachment and VolumeAttributesClass. Their rules and
// messages are those of Kubernetes 1.37 with upstream's default features: storage health is not reported. Package authz/node and admission ensure that a node writes only the CSINode
// of its name. A Kind is data without state, safe for concurrent use.
package storage
