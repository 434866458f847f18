package pvbinder

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/client"
)

func (c *Controller) syncVolume(ctx context.Context, pv *corev1.PersistentVolume) error {
	if annealed, changed := annealVolume(pv); changed {
		stored, err := c.writeVolume(ctx, annealed, "")
		if err != nil {
			return err
		}
		pv = stored
	}
	claim, err := c.claimant(ctx, pv)
	if err != nil {
		return err
	}
	plan := planVolume(pv, claim)
	switch {
	case plan.wake:
		c.queue.Add(claimOf(pv))
		return nil
	case plan.mismatch:
		c.tell(pv, &report{corev1.EventTypeWarning, "VolumeMismatch",
			fmt.Sprintf("Cannot bind PersistentVolume to requested PersistentVolumeClaim %q due to incompatible volumeMode.", claim.Name)})
		c.tell(claim, &report{corev1.EventTypeWarning, "VolumeMismatch",
			fmt.Sprintf("Cannot bind PersistentVolume %q to requested PersistentVolumeClaim due to incompatible volumeMode.", pv.Name)})
		return nil
	case plan.unbind:
		return c.unbind(ctx, pv)
	case plan.reclaim:
		return c.release(ctx, pv)
	}
	_, err = c.setPhase(ctx, pv, plan.phase, "", nil)
	return err
}

// volumePlan is what to do about a volume: one of these.
type volumePlan struct {
	phase    corev1.PersistentVolumePhase // set the phase
	wake     bool                         // let its claim complete the binding
	mismatch bool                         // report that the modes differ
	unbind   bool                         // make it available again
	reclaim  bool                         // release it and follow its policy
}

// planVolume decides on a volume; claim is the one it is bound to, or nil if that does not exist.
func planVolume(pv *corev1.PersistentVolume, claim *corev1.PersistentVolumeClaim) volumePlan {
	switch ref := pv.Spec.ClaimRef; {
	case ref == nil || ref.UID == "": // unused, or reserved for a claim that has not been bound to it
		return volumePlan{phase: corev1.VolumeAvailable}
	case claim == nil:
		return volumePlan{reclaim: true}
	case claim.Spec.VolumeName == "":
		mismatch := modesDiffer(pv, claim)
		return volumePlan{mismatch: mismatch, wake: !mismatch}
	case claim.Spec.VolumeName == pv.Name:
		return volumePlan{phase: corev1.VolumeBound}
	}
	// The claim is bound to another volume.
	made := metav1.HasAnnotation(pv.ObjectMeta, provisionedBy) && pv.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimDelete
	return volumePlan{reclaim: made, unbind: !made}
}

// claimant returns the claim that a volume is bound to, or nil if that does not exist. A volume must not be reclaimed
// because a cache lags: what may be missing is read from the server.
func (c *Controller) claimant(ctx context.Context, pv *corev1.PersistentVolume) (*corev1.PersistentVolumeClaim, error) {
	ref := pv.Spec.ClaimRef
	if ref == nil || ref.UID == "" {
		return nil, nil
	}
	claim, ok := c.claims[claimOf(pv)]
	if !ok && !released(pv) {
		claim, ok = c.in.Claims.Get(ref.Namespace, ref.Name)
	}
	if ok && claim.UID == ref.UID {
		return claim, nil
	}
	if !ok && released(pv) {
		return nil, nil
	}
	at := client.Target{Resource: corev1.SchemeGroupVersion.WithResource("persistentvolumeclaims"), Namespace: ref.Namespace, Name: ref.Name}
	live, err := client.As[*corev1.PersistentVolumeClaim](c.client.Get(ctx, at))
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("reading claim %s: %w", claimOf(pv), err)
	case live.UID != ref.UID:
		return nil, nil // another one of the same name
	}
	return live, nil
}

func released(pv *corev1.PersistentVolume) bool {
	return pv.Status.Phase == corev1.VolumeReleased || pv.Status.Phase == corev1.VolumeFailed
}

// setPhase writes a volume's phase unless it has it, and then reports it.
func (c *Controller) setPhase(
	ctx context.Context, pv *corev1.PersistentVolume, phase corev1.PersistentVolumePhase, message string, told *report,
) (*corev1.PersistentVolume, error) {
	if pv.Status.Phase == phase {
		return pv, nil
	}
	next := pv.DeepCopy()
	next.Status.Phase, next.Status.Message = phase, message
	stored, err := c.writeVolume(ctx, next, "status")
	if err == nil && told != nil {
		c.tell(stored, told)
	}
	return stored, err
}

// unbind undoes a binding. A volume that its maker reserved for a claim stays reserved for it.
func (c *Controller) unbind(ctx context.Context, pv *corev1.PersistentVolume) error {
	next := pv.DeepCopy()
	if metav1.HasAnnotation(pv.ObjectMeta, boundByUs) {
		next.Spec.ClaimRef = nil
		delete(next.Annotations, boundByUs)
	} else {
		next.Spec.ClaimRef.UID = ""
	}
	stored, err := c.writeVolume(ctx, next, "")
	if err != nil {
		return err
	}
	_, err = c.setPhase(ctx, stored, corev1.VolumeAvailable, "", nil)
	return err
}
