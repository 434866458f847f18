package storage

import (
	"reflect"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-dev/keelson/registry/internal/check"
)

// validateInline validates the volume of an attachment that has no PersistentVolume. It can only be a CSI volume: any other
// source is refused, and therefore its fields are not looked at.
func validateInline(spec *corev1.PersistentVolumeSpec, path *field.Path) field.ErrorList {
	const context = "may not be specified in the context of inline volumes"
	var errs field.ErrorList
	forbid := func(set bool, name, why string) {
		if set {
			errs = append(errs, field.Forbidden(path.Child(name), why))
		}
	}
	forbid(spec.ClaimRef != nil, "claimRef", context)
	forbid(len(spec.Capacity) > 0, "capacity", context)
	csi := path.Child("csi")
	if spec.CSI == nil {
		errs = append(errs, field.Required(csi, "has to be specified in the context of inline volumes"))
	}
	errs = append(errs, validateAccessModes(spec.AccessModes, path.Child("accessModes"))...)
	policy := spec.PersistentVolumeReclaimPolicy
	forbid(policy != "" && policy != corev1.PersistentVolumeReclaimRetain, "persistentVolumeReclaimPolicy",
		"may only be Retain in the context of inline volumes")
	forbid(spec.NodeAffinity != nil, "nodeAffinity", context)
	others := spec.PersistentVolumeSource
	others.CSI = nil
	switch more := !reflect.ValueOf(others).IsZero(); {
	case spec.CSI == nil && !more:
		errs = append(errs, field.Required(path, "must specify a volume type"))
	case spec.CSI == nil:
	case more:
		errs = append(errs, field.Forbidden(csi, "may not specify more than 1 volume type"))
	default:
		errs = append(errs, validateCSISource(spec.CSI, csi)...)
	}
	forbid(spec.StorageClassName != "", "storageClassName", context)
	forbid(spec.VolumeMode != nil && *spec.VolumeMode != corev1.PersistentVolumeFilesystem, "volumeMode",
		"may not specify volumeMode other than Filesystem in the context of inline volumes")
	return errs
}

func validateAccessModes(modes []corev1.PersistentVolumeAccessMode, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if len(modes) == 0 {
		errs = append(errs, field.Required(path, ""))
	}
	single, other := false, false
	for _, mode := range modes {
		unknown := check.OneOf(path, mode,
			corev1.ReadOnlyMany, corev1.ReadWriteMany, corev1.ReadWriteOnce, corev1.ReadWriteOncePod)
		errs = append(errs, unknown...)
		single = single || mode == corev1.ReadWriteOncePod
		other = other || mode != corev1.ReadWriteOncePod && len(unknown) == 0
	}
	if single && other {
		errs = append(errs, field.Forbidden(path, "may not use ReadWriteOncePod with other access modes"))
	}
	return errs
}

func validateCSISource(csi *corev1.CSIPersistentVolumeSource, path *field.Path) field.ErrorList {
	errs := validateDriverName(csi.Driver, path.Child("driver"))
	if csi.VolumeHandle == "" {
		errs = append(errs, field.Required(path.Child("volumeHandle"), ""))
	}
	for _, secret := range []struct {
		name string
		ref  *corev1.SecretReference
	}{
		{"controllerPublishSecretRef", csi.ControllerPublishSecretRef},
		{"controllerExpandSecretRef", csi.ControllerExpandSecretRef},
		{"nodePublishSecretRef", csi.NodePublishSecretRef},
		{"nodeExpandSecretRef", csi.NodeExpandSecretRef},
	} {
		if secret.ref != nil {
			errs = append(errs, validateSecret(secret.ref, path.Child(secret.name))...)
		}
	}
	return errs
}

func validateSecret(ref *corev1.SecretReference, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if name := path.Child("name"); ref.Name == "" {
		errs = append(errs, field.Required(name, ""))
	} else {
		errs = append(errs, check.DNSSubdomain(name, ref.Name)...)
	}
	if namespace := path.Child("namespace"); ref.Namespace == "" {
		errs = append(errs, field.Required(namespace, ""))
	} else {
		errs = append(errs, check.DNSLabel(namespace, ref.Namespace)...)
	}
	return errs
}
