package volumeexpand

import (
	corev1 "k8s.io/api/core/v1"
)

// sizeBefore is an annotation of expanded volumes whose file system is not yet.
const sizeBefore = "volume.alpha.kubernetes.io/pre-resize-capacity"

// verdict is what is said of a claim; nothing, if the message is empty.
type verdict struct {
	message string
	resizer string // the CSI driver in place of a plugin
}

// decide says who expands the volume of a claim.
func decide(claim *corev1.PersistentVolumeClaim, pv *corev1.PersistentVolume) verdict {
	_, unfinished := pv.Annotations[sizeBefore]
	if claim.Spec.Resources.Requests.Storage().Cmp(*claim.Status.Capacity.Storage()) <= 0 && !unfinished {
		return verdict{}
	}
	if plugin, driver := migrated(&pv.Spec.PersistentVolumeSource); driver != "" {
		return verdict{"CSI migration enabled for " + plugin + "; waiting for external resizer to expand the pvc", driver}
	}
	return verdict{message: "waiting for an external controller to expand this PVC"}
}

// migrated returns the plugin of upstream's that a volume was made for, and the CSI driver that has taken over.
func migrated(s *corev1.PersistentVolumeSource) (plugin, driver string) {
	switch {
	case s.AWSElasticBlockStore != nil:
		return "kubernetes.io/aws-ebs", "ebs.csi.aws.com"
	case s.GCEPersistentDisk != nil:
		return "kubernetes.io/gce-pd", "pd.csi.storage.gke.io"
	case s.AzureDisk != nil:
		return "kubernetes.io/azure-disk", "disk.csi.azure.com"
	case s.AzureFile != nil:
		return "kubernetes.io/azure-file", "file.csi.azure.com"
	case s.Cinder != nil:
		return "kubernetes.io/cinder", "cinder.csi.openstack.org"
	case s.VsphereVolume != nil:
		return "kubernetes.io/vsphere-volume", "csi.vsphere.vmware.com"
	case s.PortworxVolume != nil:
		return "kubernetes.io/portworx-volume", "pxd.portworx.com"
	}
	return "", ""
}
