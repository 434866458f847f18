package volumes

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-helpers/storage/ephemeral"
)

// Annotations by which the scheduler, the binder of volumes and provisioners understand each other.
const (
	bindCompleted = "pv.kubernetes.io/bind-completed"
	boundByUs     = "pv.kubernetes.io/bound-by-controller"
	selectedNode  = "volume.kubernetes.io/selected-node"
)

// ClaimOf returns the name of the claim of a pod's volume, and whether the claim was made for the pod; "" if the volume
// has no claim.
func ClaimOf(pod *corev1.Pod, volume *corev1.Volume) (name string, own bool) {
	switch {
	case volume.PersistentVolumeClaim != nil:
		return volume.PersistentVolumeClaim.ClaimName, false
	case volume.Ephemeral != nil:
		return ephemeral.VolumeClaimName(pod, volume), true
	}
	return "", false
}

// Uses reports whether a pod has any claims.
func Uses(pod *corev1.Pod) bool {
	for i := range pod.Spec.Volumes {
		if v := &pod.Spec.Volumes[i]; v.PersistentVolumeClaim != nil || v.Ephemeral != nil {
			return true
		}
	}
	return false
}

// Names reports whether a pod has the claim, for itself or not.
func Names(pod *corev1.Pod, claim *corev1.PersistentVolumeClaim) bool {
	return pod.Namespace == claim.Namespace && slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool {
		name, _ := ClaimOf(pod, &v)
		return name == claim.Name
	})
}

// Usable returns why a pod has to wait for one of its claims: it is missing, lost, about to go, or another pod's.
func (v *Volumes) Usable(pod *corev1.Pod) error {
	for i := range pod.Spec.Volumes {
		volume := &pod.Spec.Volumes[i]
		if volume.PersistentVolumeClaim == nil && volume.Ephemeral == nil {
			continue
		}
		name, own := ClaimOf(pod, volume)
		claim, err := v.Claim(pod.Namespace, name)
		switch {
		case err != nil && own:
			return fmt.Errorf("waiting for ephemeral volume controller to create the persistentvolumeclaim %q", name)
		case err != nil:
			return err
		case claim.Status.Phase == corev1.ClaimLost:
			return fmt.Errorf("persistentvolumeclaim %q bound to non-existent persistentvolume %q", claim.Name, claim.Spec.VolumeName)
		case claim.DeletionTimestamp != nil:
			return fmt.Errorf("persistentvolumeclaim %q is being deleted", claim.Name)
		}
		if own {
			if err := ephemeral.VolumeIsForPod(pod, claim); err != nil {
				return err
			}
		}
	}
	return nil
}

// claim returns a claim of a pod with its latest state, or nil for a volume without one.
func (v *Volumes) claim(pod *corev1.Pod, volume *corev1.Volume) (*corev1.PersistentVolumeClaim, error) {
	if volume.PersistentVolumeClaim == nil && volume.Ephemeral == nil {
		return nil, nil
	}
	name, own := ClaimOf(pod, volume)
	key := types.NamespacedName{Namespace: pod.Namespace, Name: name}
	claim, err := v.claims.get(key)
	if err != nil {
		return nil, fmt.Errorf("error getting PVC %q: %w", key, err)
	}
	if own {
		if err := ephemeral.VolumeIsForPod(pod, claim); err != nil {
			return nil, err
		}
	}
	return claim, nil
}

// Bound reports whether all claims of a pod are bound, so that nothing has to be reserved or written for them.
func (v *Volumes) Bound(pod *corev1.Pod) bool {
	for i := range pod.Spec.Volumes {
		if claim, err := v.claim(pod, &pod.Spec.Volumes[i]); err != nil || claim != nil && !bound(claim) {
			return false
		}
	}
	return true
}

// bound reports whether the binder of volumes has bound a claim.
func bound(claim *corev1.PersistentVolumeClaim) bool {
	return claim.Spec.VolumeName != "" && metav1.HasAnnotation(claim.ObjectMeta, bindCompleted)
}

// delayed reports whether a claim is bound when a pod has it, rather than at once.
func (v *Volumes) delayed(claim *corev1.PersistentVolumeClaim) (bool, error) {
	name := ClassOf(claim)
	if name == "" {
		return false, nil
	}
	class, err := v.Class(name)
	switch {
	case apierrors.IsNotFound(err):
		return false, nil
	case class.VolumeBindingMode == nil:
		return false, fmt.Errorf("VolumeBindingMode not set for StorageClass %q", name)
	}
	return *class.VolumeBindingMode == storagev1.VolumeBindingWaitForFirstConsumer && claim.Spec.VolumeName == "", nil
}

// ClassOf returns the storage class of a claim, or "".
func ClassOf(claim *corev1.PersistentVolumeClaim) string {
	if class, found := claim.Annotations[corev1.BetaStorageClassAnnotation]; found {
		return class
	}
	if claim.Spec.StorageClassName != nil {
		return *claim.Spec.StorageClassName
	}
	return ""
}

func classOfVolume(pv *corev1.PersistentVolume) string {
	if class, found := pv.Annotations[corev1.BetaStorageClassAnnotation]; found {
		return class
	}
	return pv.Spec.StorageClassName
}

// Claims are the claims of a pod, as of one moment.
type Claims struct {
	v     *Volumes
	bound []boundClaim
	// Immediate is the number of claims that should have been bound before.
	Immediate int
	// waiting are claims without a node, by size, and chosen those for which a volume is to be made on a node.
	waiting []waitingClaim
	chosen  []waitingClaim
}

// Of examines the claims of a pod.
func (v *Volumes) Of(pod *corev1.Pod) (*Claims, error) {
	c := &Claims{v: v}
	for i := range pod.Spec.Volumes {
		claim, err := v.claim(pod, &pod.Spec.Volumes[i])
		if err != nil {
			return nil, err
		}
		if claim == nil {
			continue
		}
		if bound(claim) {
			c.bound = append(c.bound, v.volumeOf(claim))
			continue
		}
		delayed, err := v.delayed(claim)
		switch {
		case err != nil:
			return nil, err
		case !delayed:
			c.Immediate++
			continue
		}
		w := waitingClaim{claim: claim, provision: v.provisioning(claim)}
		if metav1.HasAnnotation(claim.ObjectMeta, selectedNode) {
			c.chosen = append(c.chosen, w)
			continue
		}
		w.candidates, w.err = candidates(claim, v.volumes.byIndex(byClass, ClassOf(claim)))
		c.waiting = append(c.waiting, w)
	}
	slices.SortStableFunc(c.waiting, func(a, b waitingClaim) int {
		size := a.claim.Spec.Resources.Requests[corev1.ResourceStorage]
		return size.Cmp(b.claim.Spec.Resources.Requests[corev1.ResourceStorage])
	})
	return c, nil
}

// Unbound reports whether any claim has yet to be bound.
func (c *Claims) Unbound() bool { return len(c.waiting)+len(c.chosen) > 0 }
