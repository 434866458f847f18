package core

import (
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/registry"
)

func persistentVolumeColumns() registry.Columns[*corev1.PersistentVolume] {
	spec, status := corev1.PersistentVolumeSpec{}.SwaggerDoc(), corev1.PersistentVolumeStatus{}.SwaggerDoc()
	return registry.Columns[*corev1.PersistentVolume]{
		Definitions: []metav1.TableColumnDefinition{
			registry.NameColumn(),
			registry.TextColumn("Capacity", spec["capacity"]),
			registry.TextColumn("Access Modes", spec["accessModes"]),
			registry.TextColumn("Reclaim Policy", spec["persistentVolumeReclaimPolicy"]),
			registry.TextColumn("Status", status["phase"]),
			registry.TextColumn("Claim", spec["claimRef"]),
			registry.TextColumn("StorageClass", "StorageClass of the pv"),
			registry.TextColumn("VolumeAttributesClass", "VolumeAttributesClass of the pv"),
			registry.TextColumn("Reason", status["reason"]),
			registry.AgeColumn(),
			registry.WideColumn("VolumeMode", spec["volumeMode"]),
		},
		Cells: func(pv *corev1.PersistentVolume, now time.Time) []any {
			claim := ""
			if ref := pv.Spec.ClaimRef; ref != nil {
				claim = ref.Namespace + "/" + ref.Name
			}
			size := pv.Spec.Capacity[corev1.ResourceStorage]
			return []any{
				pv.Name, size.String(), accessModes(pv.Spec.AccessModes), string(pv.Spec.PersistentVolumeReclaimPolicy),
				phaseOf(pv, string(pv.Status.Phase)), claim, classOf(pv, &pv.Spec.StorageClassName),
				orUnset(pv.Spec.VolumeAttributesClassName), pv.Status.Reason, registry.Age(pv.CreationTimestamp, now),
				orUnset(pv.Spec.VolumeMode),
			}
		},
	}
}

func claimColumns() registry.Columns[*corev1.PersistentVolumeClaim] {
	spec, status := corev1.PersistentVolumeClaimSpec{}.SwaggerDoc(), corev1.PersistentVolumeClaimStatus{}.SwaggerDoc()
	return registry.Columns[*corev1.PersistentVolumeClaim]{
		Definitions: []metav1.TableColumnDefinition{
			registry.NameColumn(),
			registry.TextColumn("Status", status["phase"]),
			registry.TextColumn("Volume", spec["volumeName"]),
			registry.TextColumn("Capacity", status["capacity"]),
			registry.TextColumn("Access Modes", status["accessModes"]),
			registry.TextColumn("StorageClass", "StorageClass of the pvc"),
			registry.TextColumn("VolumeAttributesClass", "VolumeAttributesClass of the pvc"),
			registry.AgeColumn(),
			registry.WideColumn("VolumeMode", spec["volumeMode"]),
		},
		Cells: func(c *corev1.PersistentVolumeClaim, now time.Time) []any {
			capacity, modes := "", ""
			if c.Spec.VolumeName != "" {
				size := c.Status.Capacity[corev1.ResourceStorage]
				capacity, modes = size.String(), accessModes(c.Status.AccessModes)
			}
			return []any{
				c.Name, phaseOf(c, string(c.Status.Phase)), c.Spec.VolumeName, capacity, modes, classOf(c, c.Spec.StorageClassName),
				orUnset(c.Spec.VolumeAttributesClassName), registry.Age(c.CreationTimestamp, now), orUnset(c.Spec.VolumeMode),
			}
		},
	}
}

func phaseOf(obj metav1.Object, phase string) string {
	if obj.GetDeletionTimestamp() != nil {
		return "Terminating"
	}
	return phase
}

// classOf returns the class in the annotation of old clients, or else the field.
func classOf(obj metav1.Object, class *string) string {
	if annotated, found := obj.GetAnnotations()[corev1.BetaStorageClassAnnotation]; found || class == nil {
		return annotated
	}
	return *class
}

func orUnset[T ~string](value *T) string {
	if value == nil {
		return "<unset>"
	}
	return string(*value)
}

func accessModes(modes []corev1.PersistentVolumeAccessMode) string {
	var short []string
	for _, mode := range []struct {
		mode  corev1.PersistentVolumeAccessMode
		short string
	}{
		{corev1.ReadWriteOnce, "RWO"}, {corev1.ReadOnlyMany, "ROX"},
		{corev1.ReadWriteMany, "RWX"}, {corev1.ReadWriteOncePod, "RWOP"},
	} {
		if slices.Contains(modes, mode.mode) {
			short = append(short, mode.short)
		}
	}
	return strings.Join(short, ",")
}
