package plugins

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/scheduler"
	"github.com/keelson-dev/keelson/scheduler/volumes"
)

// VolumeRestrictions refuses nodes on which another pod has a disk that can be used once only, of AWS EBS, GCE PD, iSCSI
// or RBD: "node(s) had no available disk"; and pods of which a claim with ReadWriteOncePod is in use: "node(s)
// unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod".
//
// Without Volumes, it knows only the disks.
type VolumeRestrictions struct {
	Volumes *volumes.Volumes
}

// Name returns "VolumeRestrictions".
func (VolumeRestrictions) Name() string { return "VolumeRestrictions" }

// Check checks for a disk that is in use.
func (VolumeRestrictions) Check(pod *corev1.Pod, node *scheduler.NodeInfo) *scheduler.Refusal {
	for i := range pod.Spec.Volumes {
		if !exclusive(&pod.Spec.Volumes[i]) {
			continue
		}
		for _, other := range node.Pods {
			if diskInUse(&pod.Spec.Volumes[i], other.Pod) {
				return scheduler.Refuse("node(s) had no available disk")
			}
		}
	}
	return nil
}

// Prepare finds out whether the pod's claims are in use. It skips pods for which there is nothing to check.
func (r VolumeRestrictions) Prepare(pod *corev1.Pod, s *scheduler.Snapshot) (scheduler.Prepared, error) {
	disks := slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool { return exclusive(&v) })
	used, err := r.claimInUse(pod, s)
	switch {
	case apierrors.IsNotFound(err):
		return scheduler.Prepared{Refusal: &scheduler.Refusal{Reasons: []string{err.Error()}, Unresolvable: true}}, nil
	case err != nil || !used:
		return scheduler.Prepared{Skip: !disks}, err
	}
	refusal := scheduler.Refuse("node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod")
	return scheduler.Prepared{Check: func(n *scheduler.NodeInfo) *scheduler.Refusal {
		if busy := r.Check(pod, n); busy != nil {
			return busy
		}
		return refusal
	}}, nil
}

// claimInUse reports whether a claim that one pod at a time can have is another's.
func (r VolumeRestrictions) claimInUse(pod *corev1.Pod, s *scheduler.Snapshot) (bool, error) {
	used := false
	for i := range pod.Spec.Volumes {
		source := pod.Spec.Volumes[i].PersistentVolumeClaim
		if source == nil || r.Volumes == nil {
			continue
		}
		claim, err := r.Volumes.Claim(pod.Namespace, source.ClaimName)
		if err != nil {
			return false, err
		}
		if !used && slices.Contains(claim.Spec.AccessModes, corev1.ReadWriteOncePod) {
			name := types.NamespacedName{Namespace: claim.Namespace, Name: claim.Name}
			used = slices.ContainsFunc(s.Nodes(), func(n *scheduler.NodeInfo) bool { return slices.Contains(n.Claims, name) })
		}
	}
	return used, nil
}

// exclusive reports whether the volume is of a kind that pods cannot share.
func exclusive(v *corev1.Volume) bool {
	return v.GCEPersistentDisk != nil || v.AWSElasticBlockStore != nil || v.RBD != nil || v.ISCSI != nil
}

// diskInUse reports whether a pod has the disk in a way that excludes others. Most can be shared for reading.
func diskInUse(v *corev1.Volume, pod *corev1.Pod) bool {
	for i := range pod.Spec.Volumes {
		o := &pod.Spec.Volumes[i]
		switch {
		case v.GCEPersistentDisk != nil && o.GCEPersistentDisk != nil &&
			v.GCEPersistentDisk.PDName == o.GCEPersistentDisk.PDName && !(v.GCEPersistentDisk.ReadOnly && o.GCEPersistentDisk.ReadOnly),
			v.AWSElasticBlockStore != nil && o.AWSElasticBlockStore != nil &&
				v.AWSElasticBlockStore.VolumeID == o.AWSElasticBlockStore.VolumeID,
			v.ISCSI != nil && o.ISCSI != nil && v.ISCSI.IQN == o.ISCSI.IQN && !(v.ISCSI.ReadOnly && o.ISCSI.ReadOnly),
			v.RBD != nil && o.RBD != nil && sameImage(v.RBD, o.RBD) && !(v.RBD.ReadOnly && o.RBD.ReadOnly):
			return true
		}
	}
	return false
}

func sameImage(a, b *corev1.RBDVolumeSource) bool {
	return a.RBDPool == b.RBDPool && a.RBDImage == b.RBDImage &&
		slices.ContainsFunc(a.CephMonitors, func(monitor string) bool { return slices.Contains(b.CephMonitors, monitor) })
}

// Events returns deleted pods, added nodes and added claims.
func (VolumeRestrictions) Events() scheduler.EventKind {
	return scheduler.AssignedPodDeleted | scheduler.NodeAdded | scheduler.ObjectAdded
}

// MayHelp reports whether the deleted pod had a disk or a claim of the pod's, or the claim is the pod's.
func (r VolumeRestrictions) MayHelp(pod *corev1.Pod, e scheduler.Event) bool {
	switch e.Kind {
	case scheduler.NodeAdded:
		return true
	case scheduler.ObjectAdded:
		claim, ok := e.Object.(*corev1.PersistentVolumeClaim)
		return ok && claim.Namespace == pod.Namespace && namesClaim(pod, claim.Name)
	}
	if e.OldPod.Namespace != pod.Namespace {
		return false
	}
	for i := range pod.Spec.Volumes {
		v := &pod.Spec.Volumes[i]
		if exclusive(v) && diskInUse(v, e.OldPod) || v.PersistentVolumeClaim != nil && namesClaim(e.OldPod, v.PersistentVolumeClaim.ClaimName) {
			return true
		}
	}
	return false
}

// namesClaim reports whether a pod names a claim of its namespace.
func namesClaim(pod *corev1.Pod, name string) bool {
	return slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool {
		return v.PersistentVolumeClaim != nil && v.PersistentVolumeClaim.ClaimName == name
	})
}
