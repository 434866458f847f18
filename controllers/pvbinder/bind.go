package pvbinder

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/internal/boundedquantity"
)

// bind writes what is missing of a binding: the volume and its status first, then the claim and its status. After an
// error, what follows completes it.
func (c *Controller) bind(ctx context.Context, pv *corev1.PersistentVolume, claim *corev1.PersistentVolumeClaim) error {
	var err error
	if bound, changed := boundVolume(pv, claim); changed {
		if pv, err = c.writeVolume(ctx, bound, ""); err != nil {
			return err
		}
	}
	if pv, err = c.setPhase(ctx, pv, corev1.VolumeBound, "", nil); err != nil {
		return err
	}
	if bound, changed := boundClaim(claim, pv); changed {
		if claim, err = c.writeClaim(ctx, bound, ""); err != nil {
			return err
		}
	}
	next := boundStatus(claim, pv)
	if equality.Semantic.DeepEqual(next.Status, claim.Status) {
		return nil
	}
	_, err = c.writeClaim(ctx, next, "status")
	return err
}

// boundVolume returns a volume bound to a claim, and whether it was not yet.
func boundVolume(pv *corev1.PersistentVolume, claim *corev1.PersistentVolumeClaim) (*corev1.PersistentVolume, bool) {
	if boundTo(pv, claim) && pv.Spec.ClaimRef.UID == claim.UID {
		return pv, false
	}
	bound := pv.DeepCopy()
	if !boundTo(pv, claim) { // else it was reserved for the claim
		metav1.SetMetaDataAnnotation(&bound.ObjectMeta, boundByUs, "yes")
	}
	bound.Spec.ClaimRef = &corev1.ObjectReference{
		Kind: "PersistentVolumeClaim", APIVersion: "v1", Namespace: claim.Namespace, Name: claim.Name,
		UID: claim.UID, ResourceVersion: claim.ResourceVersion,
	}
	return bound, true
}

// boundClaim returns a claim bound to a volume, and whether it was not yet.
func boundClaim(claim *corev1.PersistentVolumeClaim, pv *corev1.PersistentVolume) (*corev1.PersistentVolumeClaim, bool) {
	bound, changed := claim.DeepCopy(), false
	if claim.Spec.VolumeName != pv.Name {
		bound.Spec.VolumeName, changed = pv.Name, true
		if !metav1.HasAnnotation(bound.ObjectMeta, boundByUs) {
			metav1.SetMetaDataAnnotation(&bound.ObjectMeta, boundByUs, "yes")
		}
	}
	if !metav1.HasAnnotation(bound.ObjectMeta, bindCompleted) {
		metav1.SetMetaDataAnnotation(&bound.ObjectMeta, bindCompleted, "yes")
		changed = true
	}
	return bound, changed
}

// unboundStatus returns a claim in a phase without a volume, and whether that is a change.
func unboundStatus(claim *corev1.PersistentVolumeClaim, phase corev1.PersistentVolumeClaimPhase) (*corev1.PersistentVolumeClaim, bool) {
	next := claim.DeepCopy()
	status := &next.Status
	status.Phase, status.AccessModes, status.Capacity, status.CurrentVolumeAttributesClassName = phase, nil, nil, nil
	return next, !equality.Semantic.DeepEqual(next.Status, claim.Status)
}

// boundStatus returns a claim with the status that its volume gives it, which may be the one it has.
func boundStatus(claim *corev1.PersistentVolumeClaim, pv *corev1.PersistentVolume) *corev1.PersistentVolumeClaim {
	next := claim.DeepCopy()
	status := &next.Status
	status.Phase, status.AccessModes = corev1.ClaimBound, pv.Spec.AccessModes
	if claim.Status.Phase == corev1.ClaimPending {
		status.CurrentVolumeAttributesClassName = pv.Spec.VolumeAttributesClassName
	}
	// A bound claim may differ on purpose: its file system may not have grown with the volume yet.
	if claim.Status.Phase != corev1.ClaimBound {
		status.Capacity = pv.Spec.Capacity.DeepCopy()
		if before, err := boundedquantity.Parse(pv.Annotations[sizeBefore]); err == nil {
			status.Capacity[corev1.ResourceStorage] = before
		}
	}
	return next
}
