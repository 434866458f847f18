package csi

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	csispec "github.com/container-storage-interface/spec/lib/go/csi"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/keelson-dev/keelson/kubelet/volume/claims"
)

const (
	persistent = string(storagev1.VolumeLifecyclePersistent)
	ephemeral  = string(storagev1.VolumeLifecycleEphemeral)
)

// ErrUnsupported means that volumes are not mounted in the way that a pod wants.
var ErrUnsupported = errors.New("not supported")

// source is a CSI volume of a pod, persistent or inline.
type source struct {
	claims.Mount
	driver, handle, fsType string
	lifecycle              string
	readOnly               bool
	attributes             map[string]string
	mode                   corev1.PersistentVolumeAccessMode
	stageSecret            *corev1.SecretReference
	publishSecret          *corev1.SecretReference
}

func sourceOf(m claims.Mount) source {
	if m.Persistent == nil {
		in := m.Volume.CSI
		s := source{
			Mount: m, driver: in.Driver, handle: inlineHandle(m.Pod.UID, m.Volume.Name), lifecycle: ephemeral,
			readOnly: in.ReadOnly != nil && *in.ReadOnly, attributes: in.VolumeAttributes, mode: corev1.ReadWriteOnce,
		}
		if in.FSType != nil {
			s.fsType = *in.FSType
		}
		if in.NodePublishSecretRef != nil {
			s.publishSecret = &corev1.SecretReference{Namespace: m.Pod.Namespace, Name: in.NodePublishSecretRef.Name}
		}
		return s
	}
	in := m.Persistent.Spec.CSI
	s := source{
		Mount: m, driver: in.Driver, handle: in.VolumeHandle, fsType: in.FSType, lifecycle: persistent,
		readOnly: m.ReadOnly, attributes: in.VolumeAttributes, mode: corev1.ReadWriteOnce,
		stageSecret: in.NodeStageSecretRef, publishSecret: in.NodePublishSecretRef,
	}
	if modes := m.Persistent.Spec.AccessModes; len(modes) > 0 {
		s.mode = modes[0]
	}
	return s
}

func (s *source) name() corev1.UniqueVolumeName { return uniqueName(s.driver, s.handle) }

// capability is how a volume is used.
func (s *source) capability(can abilities, group *int64) *csispec.VolumeCapability {
	mount := &csispec.VolumeCapability_MountVolume{FsType: s.fsType, MountFlags: s.Options()}
	if group != nil && can[csispec.NodeServiceCapability_RPC_VOLUME_MOUNT_GROUP] {
		mount.VolumeMountGroup = fmt.Sprint(*group)
	}
	return &csispec.VolumeCapability{
		AccessType: &csispec.VolumeCapability_Mount{Mount: mount},
		AccessMode: &csispec.VolumeCapability_AccessMode{Mode: accessMode(s.mode, can[csispec.NodeServiceCapability_RPC_SINGLE_NODE_MULTI_WRITER])},
	}
}

// accessMode maps modes; drivers may tell volumes of one pod from those of one node.
func accessMode(mode corev1.PersistentVolumeAccessMode, distinguishes bool) csispec.VolumeCapability_AccessMode_Mode {
	switch {
	case mode == corev1.ReadOnlyMany:
		return csispec.VolumeCapability_AccessMode_MULTI_NODE_READER_ONLY
	case mode == corev1.ReadWriteMany:
		return csispec.VolumeCapability_AccessMode_MULTI_NODE_MULTI_WRITER
	case mode == corev1.ReadWriteOnce && distinguishes:
		return csispec.VolumeCapability_AccessMode_SINGLE_NODE_MULTI_WRITER
	case mode == corev1.ReadWriteOncePod && distinguishes:
		return csispec.VolumeCapability_AccessMode_SINGLE_NODE_SINGLE_WRITER
	case mode == corev1.ReadWriteOnce || mode == corev1.ReadWriteOncePod:
		return csispec.VolumeCapability_AccessMode_SINGLE_NODE_WRITER
	default:
		return csispec.VolumeCapability_AccessMode_UNKNOWN
	}
}

// context is what the driver learns of a volume, and of its pod if it wants to.
func (s *source) context(d *storagev1.CSIDriver) map[string]string {
	all := maps.Clone(s.attributes)
	if d == nil || d.Spec.PodInfoOnMount == nil || !*d.Spec.PodInfoOnMount {
		return all
	}
	if all == nil {
		all = map[string]string{}
	}
	all["csi.storage.k8s.io/pod.name"] = s.Pod.Name
	all["csi.storage.k8s.io/pod.namespace"] = s.Pod.Namespace
	all["csi.storage.k8s.io/pod.uid"] = string(s.Pod.UID)
	all["csi.storage.k8s.io/serviceAccount.name"] = s.Pod.Spec.ServiceAccountName
	all["csi.storage.k8s.io/ephemeral"] = fmt.Sprint(s.lifecycle == ephemeral)
	return all
}

// checkLifecycle fails if the driver does not have such volumes.
func (s *source) checkLifecycle(d *storagev1.CSIDriver) error {
	switch {
	case d == nil && s.lifecycle == persistent:
		return nil
	case d == nil:
		return fmt.Errorf("volume mode %q not supported by driver %s (no CSIDriver object)", s.lifecycle, s.driver)
	}
	modes := d.Spec.VolumeLifecycleModes
	if len(modes) == 0 {
		modes = []storagev1.VolumeLifecycleMode{storagev1.VolumeLifecyclePersistent}
	}
	if !slices.Contains(modes, storagev1.VolumeLifecycleMode(s.lifecycle)) {
		return fmt.Errorf("volume mode %q not supported by driver %s (only supports %q)", s.lifecycle, s.driver, modes)
	}
	return nil
}

// attachable reports whether a volume has to be attached before it is mounted.
func (s *source) attachable(d *storagev1.CSIDriver) bool {
	return s.lifecycle == persistent && (d == nil || d.Spec.AttachRequired == nil || *d.Spec.AttachRequired)
}

// owned reports whether the kubelet gives a volume to the pod's group.
func (s *source) owned(d *storagev1.CSIDriver, can abilities) bool {
	if group(s.Pod) == nil || s.readOnly || can[csispec.NodeServiceCapability_RPC_VOLUME_MOUNT_GROUP] {
		return false
	}
	policy := storagev1.ReadWriteOnceWithFSTypeFSGroupPolicy
	if d != nil && d.Spec.FSGroupPolicy != nil {
		policy = *d.Spec.FSGroupPolicy
	}
	switch policy {
	case storagev1.FileFSGroupPolicy:
		return true
	case storagev1.NoneFSGroupPolicy:
		return false
	default:
		return s.fsType != "" && (s.Persistent == nil || s.exclusive())
	}
}

// exclusive reports whether one of the modes is that of a single node.
func (s *source) exclusive() bool {
	return slices.ContainsFunc(s.Persistent.Spec.AccessModes, func(m corev1.PersistentVolumeAccessMode) bool {
		return m == corev1.ReadWriteOnce || m == corev1.ReadWriteOncePod
	})
}

func group(pod *corev1.Pod) *int64 {
	if pod.Spec.SecurityContext == nil {
		return nil
	}
	return pod.Spec.SecurityContext.FSGroup
}
