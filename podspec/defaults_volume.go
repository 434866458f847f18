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
		defaultClaimSpec(&v.Ephemeral.VolumeClaimTemplate.Spec)
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
		defaultRBD(&v.RBD.RBDPool, &v.RBD.RadosUser, &v.RBD.Keyring)
	}
	if v.AzureDisk != nil {
		defaultAzureDisk(v.AzureDisk)
	}
	if v.ScaleIO != nil {
		defaultScaleIO(&v.ScaleIO.StorageMode, &v.ScaleIO.FSType)
	}
}

func defaultRBD(pool, user, keyring *string) {
	setIfZero(pool, "rbd")
	setIfZero(user, "admin")
	setIfZero(keyring, "/etc/ceph/keyring")
}

func defaultAzureDisk(disk *corev1.AzureDiskVolumeSource) {
	setIfNil(&disk.CachingMode, corev1.AzureDataDiskCachingReadWrite)
	setIfNil(&disk.FSType, "ext4")
	setIfNil(&disk.ReadOnly, false)
	setIfNil(&disk.Kind, corev1.AzureSharedBlobDisk)
}

func defaultScaleIO(mode, fsType *string) {
	setIfZero(mode, "ThinProvisioned")
	setIfZero(fsType, "xfs")
}

// DefaultPersistentVolume fills the unset fields of a volume.
func DefaultPersistentVolume(pv *corev1.PersistentVolume) {
	setIfZero(&pv.Status.Phase, corev1.VolumePending)
	spec := &pv.Spec
	setIfZero(&spec.PersistentVolumeReclaimPolicy, corev1.PersistentVolumeReclaimRetain)
	setIfNil(&spec.VolumeMode, corev1.PersistentVolumeFilesystem)
	DefaultInlineVolume(spec)
}

// DefaultInlineVolume fills the unset fields of a volume's source, and rounds its capacity. That is all that is done with
// the volumes inside VolumeAttachments.
func DefaultInlineVolume(spec *corev1.PersistentVolumeSpec) {
	roundUp(spec.Capacity)
	if spec.HostPath != nil {
		setIfNil(&spec.HostPath.Type, corev1.HostPathUnset)
	}
	if spec.RBD != nil {
		defaultRBD(&spec.RBD.RBDPool, &spec.RBD.RadosUser, &spec.RBD.Keyring)
	}
	if spec.ISCSI != nil {
		setIfZero(&spec.ISCSI.ISCSIInterface, "default")
	}
	if spec.AzureDisk != nil {
		defaultAzureDisk(spec.AzureDisk)
	}
	if spec.ScaleIO != nil {
		defaultScaleIO(&spec.ScaleIO.StorageMode, &spec.ScaleIO.FSType)
	}
}

// DefaultClaim fills the unset fields of a claim: of an object, or of a template of claims in another kind.
func DefaultClaim(claim *corev1.PersistentVolumeClaim) {
	setIfZero(&claim.Status.Phase, corev1.ClaimPending)
	defaultClaimSpec(&claim.Spec)
	roundUp(claim.Status.Capacity)
	roundUp(claim.Status.AllocatedResources)
}

func defaultClaimSpec(spec *corev1.PersistentVolumeClaimSpec) {
	setIfNil(&spec.VolumeMode, corev1.PersistentVolumeFilesystem)
	roundUp(spec.Resources.Limits)
	roundUp(spec.Resources.Requests)
}
