package pvbinder

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/client"
)

// release marks a volume whose claim is gone and does what its policy demands.
func (c *Controller) release(ctx context.Context, pv *corev1.PersistentVolume) error {
	if !released(pv) { // that something failed stays visible
		stored, err := c.setPhase(ctx, pv, corev1.VolumeReleased, "", nil)
		if err != nil {
			return err
		}
		pv = stored
	}
	if pv.Annotations[migratedTo] != "" {
		return nil // the CSI driver's provisioner deletes it
	}
	switch pv.Spec.PersistentVolumeReclaimPolicy {
	case corev1.PersistentVolumeReclaimRetain:
		return nil
	case corev1.PersistentVolumeReclaimRecycle:
		return c.recycle(ctx, pv)
	case corev1.PersistentVolumeReclaimDelete:
		if err := deletable(pv); err != nil {
			return c.fail(ctx, pv, "VolumeFailedDelete", err.Error())
		}
		return nil // an external provisioner deletes it
	}
	return c.fail(ctx, pv, "VolumeUnknownReclaimPolicy", "Volume has unrecognized PersistentVolumeReclaimPolicy")
}

func (c *Controller) fail(ctx context.Context, pv *corev1.PersistentVolume, reason, message string) error {
	_, err := c.setPhase(ctx, pv, corev1.VolumeFailed, message, &report{corev1.EventTypeWarning, reason, message})
	return err
}

// recycle fails, as for every volume without a recycler, unless pods still use the volume.
func (c *Controller) recycle(ctx context.Context, pv *corev1.PersistentVolume) error {
	newest, err := client.As[*corev1.PersistentVolume](c.client.Get(ctx, target(pv, "")))
	if err != nil {
		return fmt.Errorf("reading volume %s: %w", pv.Name, err)
	}
	if ref := newest.Spec.ClaimRef; ref == nil || ref.UID == "" {
		return nil // no longer released
	}
	claim, exists := c.claims[claimOf(newest)]
	if exists && claim.UID == newest.Spec.ClaimRef.UID && (claim.Spec.VolumeName == "" || claim.Spec.VolumeName == pv.Name) {
		return nil
	}
	if users := usersOf(c.using(newest.Spec.ClaimRef.Namespace, newest.Spec.ClaimRef.Name)); len(users) > 0 && !exists {
		c.tell(pv, &report{corev1.EventTypeNormal, "VolumeFailedRecycle", "Volume is used by pods: " + strings.Join(users, ",")})
		return nil
	}
	return c.fail(ctx, newest, "VolumeFailedRecycle", "No recycler plugin found for the volume!")
}

// provisioner returns the external provisioner of a class.
func provisioner(name string) (string, error) {
	if driver, ok := migrated(name); ok {
		return driver, nil
	}
	switch {
	case name == nfs:
		return "", errors.New("no provisionable volume plugin matched")
	case strings.HasPrefix(name, inTree):
		return "", fmt.Errorf("no volume plugin matched name: %s", name)
	}
	return name, nil
}

// deletable says why nobody deletes a volume; without an error, an external provisioner does.
func deletable(pv *corev1.PersistentVolume) error {
	switch by := pv.Annotations[provisionedBy]; {
	case by == nfs:
		return errors.New("no deletable volume plugin matched")
	case strings.HasPrefix(by, inTree):
		return fmt.Errorf("no volume plugin matched name: %s", by)
	case by != "" || pv.Spec.CSI != nil || metav1.HasAnnotation(pv.ObjectMeta, migratedTo):
		return nil
	}
	reason := "no volume plugin matched"
	if pv.Spec.NFS != nil {
		reason = "no deletable volume plugin matched"
	}
	return fmt.Errorf("error getting deleter volume plugin for volume %q: %s", pv.Name, reason)
}

// annealClaim returns a claim with the annotation of the CSI driver that has taken over from its provisioner, and whether
// that is a change.
func annealClaim(claim *corev1.PersistentVolumeClaim) (*corev1.PersistentVolumeClaim, bool) {
	by, ok := claim.Annotations[askedFor]
	if !ok {
		by, ok = claim.Annotations[askedForBeta]
	}
	if driver, _ := migrated(by); !ok || claim.Annotations[migratedTo] == driver {
		return claim, false
	}
	next := claim.DeepCopy()
	annotate(next.Annotations, by)
	return next, true
}

// annealVolume returns a volume with the annotation of the CSI driver that has taken over from its plugin and without the
// finalizers of those that have not made it, and whether that is a change.
func annealVolume(pv *corev1.PersistentVolume) (*corev1.PersistentVolume, bool) {
	by, ok := pv.Annotations[provisionedBy]
	if !ok {
		return pv, false
	}
	finalizers := finalizersOf(pv, by)
	driver, _ := migrated(by)
	if pv.Annotations[migratedTo] == driver && slices.Equal(finalizers, pv.Finalizers) {
		return pv, false
	}
	next := pv.DeepCopy()
	next.Finalizers = finalizers
	annotate(next.Annotations, by)
	return next, true
}

func annotate(annotations map[string]string, by string) {
	if driver, ok := migrated(by); ok {
		annotations[migratedTo] = driver
	} else {
		delete(annotations, migratedTo)
	}
}

// finalizersOf returns the finalizers that a volume should have: with upstream's own while one of its plugins is to
// delete the volume.
func finalizersOf(pv *corev1.PersistentVolume, by string) []string {
	without := func(list []string, name string) []string {
		return slices.DeleteFunc(slices.Clone(list), func(f string) bool { return f == name })
	}
	own := slices.Contains(pv.Finalizers, pluginFinalizer)
	_, taken := migrated(by)
	switch {
	case taken && own:
		return without(pv.Finalizers, pluginFinalizer)
	case taken || !strings.HasPrefix(by, inTree):
		return pv.Finalizers
	}
	list := without(pv.Finalizers, provisionerFinalizer)
	switch pv.Spec.PersistentVolumeReclaimPolicy {
	case corev1.PersistentVolumeReclaimDelete:
		if !own {
			list = append(list, pluginFinalizer)
		}
	case corev1.PersistentVolumeReclaimRetain, corev1.PersistentVolumeReclaimRecycle:
		list = without(list, pluginFinalizer)
	}
	return list
}
