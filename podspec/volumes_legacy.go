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
		{"nfs", s.NFS != nil, func(p *field.Path) { v.nfs(s.NFS, p) }},
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
			v.azureFile(s.AzureFile.SecretName, s.AzureFile.ShareName, p)
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
			v.storageOS(s.StorageOS.VolumeName, s.StorageOS.VolumeNamespace, p)
			v.secretRef(p, s.StorageOS.SecretRef)
		}},
	}
}

func (r *report) nfs(s *corev1.NFSVolumeSource, p *field.Path) {
	r.need(p.Child("server"), s.Server)
	r.need(p.Child("path"), s.Path)
	if !path.IsAbs(s.Path) {
		r.invalid(p.Child("path"), s.Path, "must be an absolute path")
	}
}

func (r *report) storageOS(name, namespace string, p *field.Path) {
	if r.need(p.Child("volumeName"), name) {
		r.label(p.Child("volumeName"), name)
	}
	if namespace != "" {
		r.label(p.Child("volumeNamespace"), namespace)
	}
}

func (r *report) azureFile(secret, share string, p *field.Path) {
	r.need(p.Child("secretName"), secret)
	r.need(p.Child("shareName"), share)
}

func (r *report) secretRef(p *field.Path, ref *corev1.LocalObjectReference) {
	if ref != nil {
		r.need(p.Child("secretRef", "name"), ref.Name)
	}
}

func (r *report) disk(idPath *field.Path, id string, partitionPath *field.Path, partition int32) {
	r.need(idPath, id)
	r.partition(partitionPath, partition)
}

func (r *report) scaleIO(gateway, system, volume string, p *field.Path) {
	r.need(p.Child("gateway"), gateway)
	r.need(p.Child("system"), system)
	r.need(p.Child("volumeName"), volume)
}

func (r *report) partition(p *field.Path, n int32) {
	if n < 0 || n > 255 {
		r.invalid(p, n, validation.InclusiveRangeError(1, 255))
	}
}

func (v *validator) iscsi(s *corev1.ISCSIVolumeSource, p *field.Path) {
	v.need(p.Child("targetPortal"), s.TargetPortal)
	if v.need(p.Child("iqn"), s.IQN) {
		v.iscsiName(p.Child("iqn"), s.IQN, iscsiPrefixes)
	}
	v.iscsiAccess(s.Lun, s.DiscoveryCHAPAuth || s.SessionCHAPAuth, s.SecretRef != nil, p)
	if s.InitiatorName != nil {
		v.iscsiName(p.Child("initiatorname"), *s.InitiatorName, iscsiPrefixes)
	}
}

func (r *report) iscsiAccess(lun int32, authenticated, secret bool, p *field.Path) {
	if lun < 0 || lun > 255 {
		r.invalid(p.Child("lun"), lun, validation.InclusiveRangeError(0, 255))
	}
	if authenticated && !secret {
		r.required(p.Child("secretRef"), "")
	}
}

const (
	iscsiFormat   = "must be valid format"
	iscsiPrefixes = "must be valid format starting with iqn, eui, or naa"
	iscsiTooLong  = "Total length of <volume name>:<iscsi.targetPortal> must be under 64 characters if iscsi.initiatorName is specified."
)

// iscsiName reports names of no known type with the message unknown.
func (r *report) iscsiName(p *field.Path, name, unknown string) {
	var format string
	switch {
	case strings.HasPrefix(name, "iqn"):
		format = `iqn\.\d{4}-\d{2}\.([[:alnum:]-.]+)(:[^,;*&$|\s]+)$`
	case strings.HasPrefix(name, "eui"):
		format = `^eui.[[:alnum:]]{16}$`
	case strings.HasPrefix(name, "naa"):
		format = `^naa.[[:alnum:]]{32}$`
	default:
		r.invalid(p, name, unknown)
		return
	}
	if !matches(format, name) {
		r.invalid(p, name, iscsiFormat)
	}
}

// iscsiNameLength checks an iSCSI volume even if it is the second kind of volume given.
func (v *validator) iscsiNameLength(vol *corev1.Volume, p *field.Path) {
	if vol.ISCSI.InitiatorName != nil && len(vol.Name+":"+vol.ISCSI.TargetPortal) > 64 {
		v.invalid(p.Child("name"), vol.Name, iscsiTooLong)
	}
}

func (r *report) fibreChannel(s *corev1.FCVolumeSource, p *field.Path) {
	names, ids := len(s.TargetWWNs) > 0, len(s.WWIDs) > 0
	if !names && !ids {
		r.required(p.Child("targetWWNs"), "must specify either targetWWNs or wwids, but not both")
	}
	if names && ids {
		r.invalid(p.Child("targetWWNs"), s.TargetWWNs, "targetWWNs and wwids can not be specified simultaneously")
	}
	if !names {
		return
	}
	if s.Lun == nil {
		r.required(p.Child("lun"), "lun is required if targetWWNs is specified")
	} else if *s.Lun < 0 || *s.Lun > 255 {
		r.invalid(p.Child("lun"), s.Lun, validation.InclusiveRangeError(0, 255))
	}
}

func (r *report) quobyte(s *corev1.QuobyteVolumeSource, p *field.Path) {
	const pair = "must be a host:port pair or multiple pairs separated by commas"
	switch {
	case s.Registry == "":
		r.required(p.Child("registry"), pair)
	case len(s.Tenant) >= 65:
		r.required(p.Child("tenant"), "must be a UUID and may not exceed a length of 64 characters")
	default:
		for one := range strings.SplitSeq(s.Registry, ",") {
			if _, _, err := net.SplitHostPort(one); err != nil {
				r.invalid(p.Child("registry"), s.Registry, pair)
			}
		}
	}
	r.need(p.Child("volume"), s.Volume)
}

func (r *report) flocker(s *corev1.FlockerVolumeSource, p *field.Path) {
	if s.DatasetName == "" && s.DatasetUUID == "" {
		r.required(p, "one of datasetName and datasetUUID is required")
	}
	if s.DatasetName != "" && s.DatasetUUID != "" {
		r.invalid(p, "resource", "datasetName and datasetUUID can not be specified simultaneously")
	}
	if strings.Contains(s.DatasetName, "/") {
		r.invalid(p.Child("datasetName"), s.DatasetName, "must not contain '/'")
	}
}

func (r *report) flexVolume(driver string, options map[string]string, p *field.Path) {
	r.need(p.Child("driver"), driver)
	for _, key := range sorted(options) {
		namespace, _, _ := strings.Cut(key, "/")
		dotted := "." + strings.ToLower(namespace)
		if strings.HasSuffix(dotted, ".kubernetes.io") || strings.HasSuffix(dotted, ".k8s.io") {
			r.invalid(p.Child("options").Key(key), key, "kubernetes.io and k8s.io namespaces are reserved")
		}
	}
}

func (r *report) azureDisk(s *corev1.AzureDiskVolumeSource, p *field.Path) {
	r.need(p.Child("diskName"), s.DiskName)
	r.need(p.Child("diskURI"), s.DataDiskURI)
	if s.CachingMode != nil {
		oneOf(r, p.Child("cachingMode"), *s.CachingMode,
			corev1.AzureDataDiskCachingNone, corev1.AzureDataDiskCachingReadOnly, corev1.AzureDataDiskCachingReadWrite)
	}
	if s.Kind == nil {
		return
	}
	oneOf(r, p.Child("kind"), *s.Kind, corev1.AzureDedicatedBlobDisk, corev1.AzureManagedDisk, corev1.AzureSharedBlobDisk)
	switch {
	case *s.Kind == corev1.AzureManagedDisk && !strings.HasPrefix(s.DataDiskURI, "/subscriptions/"):
		r.add(field.NotSupported(p.Child("diskURI"), s.DataDiskURI,
			[]string{"/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/{disk-id}"}))
	case *s.Kind != corev1.AzureManagedDisk && !strings.HasPrefix(s.DataDiskURI, "https://"):
		r.add(field.NotSupported(p.Child("diskURI"), s.DataDiskURI,
			[]string{"https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd"}))
	}
}
