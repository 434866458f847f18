package pvbinder

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/keelson-dev/keelson/controllers"
	"github.com/keelson-dev/keelson/controllers/internal/pods"
)

// byName returns volumes in order, which makes the choice among equal ones reproducible.
func byName(volumes store[*corev1.PersistentVolume]) []*corev1.PersistentVolume {
	return slices.SortedFunc(maps.Values(volumes), func(a, b *corev1.PersistentVolume) int { return cmp.Compare(a.Name, b.Name) })
}

// bestMatch returns the volume for a claim, or nil: one that is reserved for it, or else the smallest available one among
// those with the fewest access modes beyond what the claim needs. A claim that waits for its consumer gets only one that
// is reserved for it.
func bestMatch(claim *corev1.PersistentVolumeClaim, all []*corev1.PersistentVolume, delayed bool) (*corev1.PersistentVolume, error) {
	selector := labels.Everything()
	if claim.Spec.Selector != nil {
		var err error
		if selector, err = metav1.LabelSelectorAsSelector(claim.Spec.Selector); err != nil {
			return nil, fmt.Errorf("error creating internal label selector for claim: %v: %w", controllers.KeyOf(claim), err)
		}
	}
	var best candidate
	for _, pv := range all {
		free := pv.Spec.ClaimRef == nil
		switch {
		case !free && !boundTo(pv, claim), !fits(pv, claim):
		case free && (delayed || pv.Status.Phase != corev1.VolumeAvailable || !selector.Matches(labels.Set(pv.Labels)) || classOfVolume(pv) != classOf(claim)):
		default:
			if next := candidateOf(pv); best.volume == nil || next.compare(best) < 0 {
				best = next
			}
		}
	}
	return best.volume, nil
}

// fits reports whether a volume has what a claim needs, whoever it is reserved for.
func fits(pv *corev1.PersistentVolume, claim *corev1.PersistentVolumeClaim) bool {
	size := pv.Spec.Capacity[corev1.ResourceStorage]
	return size.Cmp(claim.Spec.Resources.Requests[corev1.ResourceStorage]) >= 0 && accessible(pv, claim) && !modesDiffer(pv, claim) &&
		orEmpty(claim.Spec.VolumeAttributesClassName) == orEmpty(pv.Spec.VolumeAttributesClassName) && pv.DeletionTimestamp == nil
}

// candidate is a volume with what decides between several that fit.
type candidate struct {
	volume *corev1.PersistentVolume
	modes  []corev1.PersistentVolumeAccessMode // each once, in order
	size   resource.Quantity
}

func candidateOf(pv *corev1.PersistentVolume) candidate {
	return candidate{pv, sets.List(sets.New(pv.Spec.AccessModes...)), pv.Spec.Capacity[corev1.ResourceStorage]}
}

// compare orders by the number of access modes, then by which they are; among those with the same ones, a reserved volume
// precedes, then a smaller one.
func (c candidate) compare(other candidate) int {
	free := func(pv *corev1.PersistentVolume) int {
		if pv.Spec.ClaimRef == nil {
			return 1
		}
		return 0
	}
	return cmp.Or(cmp.Compare(len(c.modes), len(other.modes)), slices.Compare(c.modes, other.modes),
		cmp.Compare(free(c.volume), free(other.volume)), c.size.Cmp(other.size))
}

// satisfies says why a volume cannot be bound to a claim that asks for it.
func satisfies(pv *corev1.PersistentVolume, claim *corev1.PersistentVolumeClaim) error {
	request, size := claim.Spec.Resources.Requests[corev1.ResourceStorage], pv.Spec.Capacity[corev1.ResourceStorage]
	switch {
	case pv.DeletionTimestamp != nil:
		return fmt.Errorf("the volume is marked for deletion %q", pv.Name)
	case size.Value() < request.Value():
		return errors.New("requested PV is too small")
	case classOfVolume(pv) != classOf(claim):
		return errors.New("storageClassName does not match")
	case orEmpty(claim.Spec.VolumeAttributesClassName) != orEmpty(pv.Spec.VolumeAttributesClassName):
		return errors.New("volumeAttributesClassName does not match")
	case modesDiffer(pv, claim):
		return errors.New("incompatible volumeMode")
	case !accessible(pv, claim):
		return errors.New("incompatible accessMode")
	}
	return nil
}

func orEmpty(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// classOf returns a claim's class; the annotation of old clients has precedence.
func classOf(claim *corev1.PersistentVolumeClaim) string {
	if class, found := claim.Annotations[corev1.BetaStorageClassAnnotation]; found {
		return class
	}
	return orEmpty(claim.Spec.StorageClassName)
}

// hasClass reports whether a claim names a class, if only the empty one.
func hasClass(claim *corev1.PersistentVolumeClaim) bool {
	return claim.Spec.StorageClassName != nil || metav1.HasAnnotation(claim.ObjectMeta, corev1.BetaStorageClassAnnotation)
}

func classOfVolume(pv *corev1.PersistentVolume) string {
	if class, found := pv.Annotations[corev1.BetaStorageClassAnnotation]; found {
		return class
	}
	return pv.Spec.StorageClassName
}

// boundTo reports whether a volume is bound to a claim or reserved for it.
func boundTo(pv *corev1.PersistentVolume, claim *corev1.PersistentVolumeClaim) bool {
	ref := pv.Spec.ClaimRef
	return ref != nil && ref.Namespace == claim.Namespace && ref.Name == claim.Name && (ref.UID == "" || ref.UID == claim.UID)
}

// accessible reports whether a volume has all access modes of a claim.
func accessible(pv *corev1.PersistentVolume, claim *corev1.PersistentVolumeClaim) bool {
	return sets.New(pv.Spec.AccessModes...).HasAll(claim.Spec.AccessModes...)
}

// modesDiffer reports whether one of the two is a file system and the other is not.
func modesDiffer(pv *corev1.PersistentVolume, claim *corev1.PersistentVolumeClaim) bool {
	block := func(mode *corev1.PersistentVolumeMode) bool {
		return mode != nil && *mode == corev1.PersistentVolumeBlock
	}
	return block(pv.Spec.VolumeMode) != block(claim.Spec.VolumeMode)
}

// defaultClass returns the newest class that is marked as the default, or "".
func defaultClass(classes []*storagev1.StorageClass) string {
	marked := slices.DeleteFunc(slices.Clone(classes), func(class *storagev1.StorageClass) bool {
		return class.Annotations[defaultMark] != "true" &&
			class.Annotations[defaultMarkBeta] != "true"
	})
	if len(marked) == 0 {
		return ""
	}
	return slices.MinFunc(marked, func(a, b *storagev1.StorageClass) int {
		return cmp.Or(b.CreationTimestamp.Compare(a.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	}).Name
}

// usersOf returns the pods that still use a claim.
func usersOf(using []*corev1.Pod) []string {
	var names []string
	for _, pod := range using {
		if !pods.DoneWithVolumes(pod) {
			names = append(names, pod.Namespace+"/"+pod.Name)
		}
	}
	return names
}
