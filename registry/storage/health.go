package storage

import (
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-dev/keelson/registry/internal/check"
)

const (
	// maxHealthConditions is the maximum number of conditions per driver.
	maxHealthConditions = 16
	// maxReason and maxMessage are the maximum lengths of these fields of a condition, in bytes.
	maxReason, maxMessage = 256, 1024
)

// validateCSINodeStatus validates the storage health, which only another server may have stored.
func validateCSINodeStatus(n, _ *storagev1.CSINode) field.ErrorList {
	path := field.NewPath("status", "storageHealth")
	var errs field.ErrorList
	names := map[string]bool{}
	for i := range n.Status.StorageHealth {
		health, at := &n.Status.StorageHealth[i], path.Index(i)
		if names[health.Name] {
			errs = append(errs, field.Duplicate(at, health.Name))
		}
		names[health.Name] = true
		errs = append(errs, validateHealth(health, at)...)
	}
	return errs
}

func validateHealth(health *storagev1.StorageHealth, path *field.Path) field.ErrorList {
	errs := validateDriverName(health.Name, path.Child("name"))
	conditions := path.Child("healthConditions")
	if len(health.HealthConditions) > maxHealthConditions {
		return append(errs, field.TooMany(conditions, len(health.HealthConditions), maxHealthConditions))
	}
	for i := range health.HealthConditions {
		errs = append(errs, validateHealthCondition(&health.HealthConditions[i], conditions.Index(i))...)
	}
	return errs
}

func validateHealthCondition(c *storagev1.StorageHealthCondition, path *field.Path) field.ErrorList {
	errs := check.OneOf(path.Child("status"), c.Status, storagev1.StorageDegraded, storagev1.StorageUnreachable)
	reason := path.Child("reason")
	if c.Reason == "" {
		errs = append(errs, field.Required(reason, ""))
	} else {
		errs = append(errs, check.Messages(reason, c.Reason, metavalidation.IsValidConditionReason(c.Reason))...)
	}
	if len(c.Reason) > maxReason {
		errs = append(errs, field.TooLong(reason, "", maxReason))
	}
	if len(c.Message) > maxMessage {
		errs = append(errs, field.TooLong(path.Child("message"), "", maxMessage))
	}
	if c.AccessMode != nil {
		errs = append(errs, check.OneOf(path.Child("accessMode"), *c.AccessMode,
			corev1.ReadOnlyMany, corev1.ReadWriteMany, corev1.ReadWriteOnce, corev1.ReadWriteOncePod)...)
	}
	if c.VolumeMode != nil {
		errs = append(errs, check.OneOf(path.Child("volumeMode"), *c.VolumeMode,
			corev1.PersistentVolumeFilesystem, corev1.PersistentVolumeBlock)...)
	}
	return errs
}
