package podspec

import (
	"net"
	"path"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func (v *validator) networkSources(vol *corev1.Volume) []sourceRule {
	s := &vol.VolumeSource
	return []sourceRule{
		{"nfs", s.NFS != nil, func(p *field.Path) {
			v.need(p.Child("server"), s.NFS.Server)
			v.need(p.Child("path"), s.NFS.Path)
			if !path.IsAbs(s.NFS.Path) {
				v.invalid(p.Child("path"), s.NFS.Path, "must be an absolute path")
			}
		}},
		{"iscsi", s.ISCSI != nil, func(p *field.Path) { v.iscsi(s.ISCSI, p) }},
		{"glusterfs", s.Glusterfs != nil, func(p *field.Path) {
			v.need(p.Child("endpoints"), s.Glusterfs.EndpointsName)
			v.need(p.Child("path"), s.Glusterfs.Path)
		}},
		{"flocker", s.Flocker != nil, func(p *field.Path) { v.flocker(s.Flocker, p) }},
		{"persistentVolumeClaim", s.PersistentVolumeClaim != nil, func(p *field.Path) {
			v.need(p.Child("claimName"), s.PersistentVolumeClaim.ClaimName)
		}},
		{"rbd", s.RBD != nil, func(p *field.Path) {
			if len(s.RBD.CephMonitors) == 0 {
				v.required(p.Child("monitors"), "")
			}
			v.need(p.Child("image"), s.RBD.RBDImage)
		}},
		{"cinder", s.Cinder != nil, func(p *field.Path) {
			v.need(p.Child("volumeID"), s.Cinder.VolumeID)
			v.secretRef(p, s.Cinder.SecretRef)
		}},
		{"cephfs", s.CephFS != nil, func(p *field.Path) {
			if len(s.CephFS.Monitors) == 0 {
				v.required(p.Child("monitors"), "")
			}
		}},
		{"quobyte", s.Quobyte != nil, func(p *field.Path) { v.quobyte(s.Quobyte, p) }},
	}
}

func (v *validator) diskSources(vol *corev1.Volume) []sourceRule {
	s := &vol.VolumeSource
	return []sourceRule{
		{"azureFile", s.AzureFile != nil, func(p *field.Path) {
			v.need(p.Child("secretName"), s.AzureFile.SecretName)
			v.need(p.Child("shareName"), s.AzureFile.ShareName)
		}},
		{"vsphereVolume", s.VsphereVolume != nil, func(p *field.Path) {
			v.need(p.Child("volumePath"), s.VsphereVolume.VolumePath)
		}},
		{"photonPersistentDisk", s.PhotonPersistentDisk != nil, func(p *field.Path) {
			v.need(p.Child("pdID"), s.PhotonPersistentDisk.PdID)
		}},
		{"portworxVolume", s.PortworxVolume != nil, func(p *field.Path) {
			v.need(p.Child("volumeID"), s.PortworxVolume.VolumeID)
		}},
		{"azureDisk", s.AzureDisk != nil, func(p *field.Path) { v.azureDisk(s.AzureDisk, p) }},
		{"storageos", s.StorageOS != nil, func(p *field.Path) {
			if v.need(p.Child("volumeName"), s.StorageOS.VolumeName) {
				v.label(p.Child("volumeName"), s.StorageOS.VolumeName)
			}
			if s.StorageOS.VolumeNamespace != "" {
				v.label(p.Child("volumeNamespace"), s.StorageOS.VolumeNamespace)
			}
			v.secretRef(p, s.StorageOS.SecretRef)
		}},
	}
}

func (v *validator) secretRef(p *field.Path, ref *corev1.LocalObjectReference) {
	if ref != nil {
		v.need(p.Child("secretRef", "name"), ref.Name)
	}
}

func (v *validator) partition(p *field.Path, n int32) {
	if n < 0 || n > 255 {
		v.invalid(p, n, validation.InclusiveRangeError(1, 255))
	}
}

func (v *validator) iscsi(s *corev1.ISCSIVolumeSource, p *field.Path) {
	v.need(p.Child("targetPortal"), s.TargetPortal)
	if v.need(p.Child("iqn"), s.IQN) {
		v.iscsiName(p.Child("iqn"), s.IQN)
	}
	if s.Lun < 0 || s.Lun > 255 {
		v.invalid(p.Child("lun"), s.Lun, validation.InclusiveRangeError(0, 255))
	}
	if (s.DiscoveryCHAPAuth || s.SessionCHAPAuth) && s.SecretRef == nil {
		v.required(p.Child("secretRef"), "")
	}
	if s.InitiatorName != nil {
		v.iscsiName(p.Child("initiatorname"), *s.InitiatorName)
	}
}

func (v *validator) iscsiName(p *field.Path, name string) {
	var format string
	switch {
	case strings.HasPrefix(name, "iqn"):
		format = `iqn\.\d{4}-\d{2}\.([[:alnum:]-.]+)(:[^,;*&$|\s]+)$`
	case strings.HasPrefix(name, "eui"):
		format = `^eui.[[:alnum:]]{16}$`
	case strings.HasPrefix(name, "naa"):
		format = `^naa.[[:alnum:]]{32}$`
	default:
		v.invalid(p, name, "must be valid format starting with iqn, eui, or naa")
		return
	}
	if !matches(format, name) {
		v.invalid(p, name, "must be valid format")
	}
}

// iscsiNameLength checks an iSCSI volume even if it is the second kind of volume given.
func (v *validator) iscsiNameLength(vol *corev1.Volume, p *field.Path) {
	if vol.ISCSI.InitiatorName != nil && len(vol.Name+":"+vol.ISCSI.TargetPortal) > 64 {
		v.invalid(p.Child("name"), vol.Name,
			"Total length of <volume name>:<iscsi.targetPortal> must be under 64 characters if iscsi.initiatorName is specified.")
	}
}

func (v *validator) fibreChannel(s *corev1.FCVolumeSource, p *field.Path) {
	names, ids := len(s.TargetWWNs) > 0, len(s.WWIDs) > 0
	if !names && !ids {
		v.required(p.Child("targetWWNs"), "must specify either targetWWNs or wwids, but not both")
	}
	if names && ids {
		v.invalid(p.Child("targetWWNs"), s.TargetWWNs, "targetWWNs and wwids can not be specified simultaneously")
	}
	if !names {
		return
	}
	if s.Lun == nil {
		v.required(p.Child("lun"), "lun is required if targetWWNs is specified")
	} else if *s.Lun < 0 || *s.Lun > 255 {
		v.invalid(p.Child("lun"), s.Lun, validation.InclusiveRangeError(0, 255))
	}
}

func (v *validator) quobyte(s *corev1.QuobyteVolumeSource, p *field.Path) {
	const pair = "must be a host:port pair or multiple pairs separated by commas"
	switch {
	case s.Registry == "":
		v.required(p.Child("registry"), pair)
	case len(s.Tenant) >= 65:
		v.required(p.Child("tenant"), "must be a UUID and may not exceed a length of 64 characters")
	default:
		for one := range strings.SplitSeq(s.Registry, ",") {
			if _, _, err := net.SplitHostPort(one); err != nil {
				v.invalid(p.Child("registry"), s.Registry, pair)
			}
		}
	}
	v.need(p.Child("volume"), s.Volume)
}

func (v *validator) flocker(s *corev1.FlockerVolumeSource, p *field.Path) {
	if s.DatasetName == "" && s.DatasetUUID == "" {
		v.required(p, "one of datasetName and datasetUUID is required")
	}
	if s.DatasetName != "" && s.DatasetUUID != "" {
		v.invalid(p, "resource", "datasetName and datasetUUID can not be specified simultaneously")
	}
	if strings.Contains(s.DatasetName, "/") {
		v.invalid(p.Child("datasetName"), s.DatasetName, "must not contain '/'")
	}
}

func (v *validator) flexVolume(s *corev1.FlexVolumeSource, p *field.Path) {
	v.need(p.Child("driver"), s.Driver)
	for _, key := range sorted(s.Options) {
		namespace, _, _ := strings.Cut(key, "/")
		dotted := "." + strings.ToLower(namespace)
		if strings.HasSuffix(dotted, ".kubernetes.io") || strings.HasSuffix(dotted, ".k8s.io") {
			v.invalid(p.Child("options").Key(key), key, "kubernetes.io and k8s.io namespaces are reserved")
		}
	}
}

func (v *validator) azureDisk(s *corev1.AzureDiskVolumeSource, p *field.Path) {
	v.need(p.Child("diskName"), s.DiskName)
	v.need(p.Child("diskURI"), s.DataDiskURI)
	if s.CachingMode != nil {
		oneOf(&v.report, p.Child("cachingMode"), *s.CachingMode,
			corev1.AzureDataDiskCachingNone, corev1.AzureDataDiskCachingReadOnly, corev1.AzureDataDiskCachingReadWrite)
	}
	if s.Kind == nil {
		return
	}
	oneOf(&v.report, p.Child("kind"), *s.Kind, corev1.AzureDedicatedBlobDisk, corev1.AzureManagedDisk, corev1.AzureSharedBlobDisk)
	switch {
	case *s.Kind == corev1.AzureManagedDisk && !strings.HasPrefix(s.DataDiskURI, "/subscriptions/"):
		v.add(field.NotSupported(p.Child("diskURI"), s.DataDiskURI,
			[]string{"/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/{disk-id}"}))
	case *s.Kind != corev1.AzureManagedDisk && !strings.HasPrefix(s.DataDiskURI, "https://"):
		v.add(field.NotSupported(p.Child("diskURI"), s.DataDiskURI,
			[]string{"https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd"}))
	}
}
