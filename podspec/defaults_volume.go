package podspec

import (
	"time"

	corev1 "k8s.io/api/core/v1"
)

func defaultVolume(v *corev1.Volume) {
	if v.VolumeSource == (corev1.VolumeSource{}) {
		v.EmptyDir = &corev1.EmptyDirVolumeSource{}
	}
	if v.Image != nil {
		setIfZero(&v.Image.PullPolicy, pullPolicy(v.Image.Reference))
	}
	if v.HostPath != nil {
		setIfNil(&v.HostPath.Type, corev1.HostPathUnset)
	}
	if v.Secret != nil {
		setIfNil(&v.Secret.DefaultMode, corev1.SecretVolumeSourceDefaultMode)
	}
	if v.ConfigMap != nil {
		setIfNil(&v.ConfigMap.DefaultMode, corev1.ConfigMapVolumeSourceDefaultMode)
	}
	if v.DownwardAPI != nil {
		setIfNil(&v.DownwardAPI.DefaultMode, corev1.DownwardAPIVolumeSourceDefaultMode)
		defaultDownwardFiles(v.DownwardAPI.Items)
	}
	if v.Projected != nil {
		defaultProjected(v.Projected)
	}
	if v.Ephemeral != nil && v.Ephemeral.VolumeClaimTemplate != nil {
		claim := &v.Ephemeral.VolumeClaimTemplate.Spec
		setIfNil(&claim.VolumeMode, corev1.PersistentVolumeFilesystem)
		roundUp(claim.Resources.Limits)
		roundUp(claim.Resources.Requests)
	}
	defaultLegacyVolume(v)
}

func defaultProjected(p *corev1.ProjectedVolumeSource) {
	setIfNil(&p.DefaultMode, corev1.ProjectedVolumeSourceDefaultMode)
	for i := range p.Sources {
		if d := p.Sources[i].DownwardAPI; d != nil {
			defaultDownwardFiles(d.Items)
		}
		if t := p.Sources[i].ServiceAccountToken; t != nil {
			setIfNil(&t.ExpirationSeconds, int64(time.Hour/time.Second))
		}
	}
}

func defaultDownwardFiles(files []corev1.DownwardAPIVolumeFile) {
	for i := range files {
		defaultFieldRef(files[i].FieldRef)
	}
}

// defaultLegacyVolume sets the defaults of volume kinds whose drivers were once part of Kubernetes.
func defaultLegacyVolume(v *corev1.Volume) {
	if v.ISCSI != nil {
		setIfZero(&v.ISCSI.ISCSIInterface, "default")
	}
	if v.RBD != nil {
		setIfZero(&v.RBD.RBDPool, "rbd")
		setIfZero(&v.RBD.RadosUser, "admin")
		setIfZero(&v.RBD.Keyring, "/etc/ceph/keyring")
	}
	if v.AzureDisk != nil {
		setIfNil(&v.AzureDisk.CachingMode, corev1.AzureDataDiskCachingReadWrite)
		setIfNil(&v.AzureDisk.FSType, "ext4")
		setIfNil(&v.AzureDisk.ReadOnly, false)
		setIfNil(&v.AzureDisk.Kind, corev1.AzureSharedBlobDisk)
	}
	if v.ScaleIO != nil {
		setIfZero(&v.ScaleIO.StorageMode, "ThinProvisioned")
		setIfZero(&v.ScaleIO.FSType, "xfs")
	}
}
