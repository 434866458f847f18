package podspec

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/diff"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// ValidateClaim validates a new claim except its metadata.
func ValidateClaim(claim *corev1.PersistentVolumeClaim) field.ErrorList {
	var r report
	r.claimSpec(&claim.Spec, field.NewPath("spec"), claimLeniency{})
	return r.errs
}

// ValidateClaimUpdate validates an update of a claim except its metadata. The status is the old one.
func ValidateClaimUpdate(claim, old *corev1.PersistentVolumeClaim) field.ErrorList {
	var r report
	p := field.NewPath("spec")
	r.claimSpec(&claim.Spec, p, claimLeniency{
		invalidSelectorValues: !validSelector(old.Spec.Selector),
		invalidAPIGroup:       old.Spec.DataSource != nil && old.Spec.DataSource.APIGroup != nil || old.Spec.DataSourceRef != nil && old.Spec.DataSourceRef.APIGroup != nil,
	})
	now, before := claim.Spec.DeepCopy(), old.Spec.DeepCopy()
	if before.VolumeName == "" {
		before.VolumeName = now.VolumeName // it may be set once
	}
	r.classChange(claim, old, now)
	if claim.Status.Phase == corev1.ClaimBound {
		if now.Resources.Requests != nil {
			now.Resources.Requests[corev1.ResourceStorage] = before.Resources.Requests[corev1.ResourceStorage]
		}
		now.VolumeAttributesClassName = before.VolumeAttributesClassName
	}
	if !equality.Semantic.DeepEqual(*now, *before) {
		r.forbidden(p, fmt.Sprintf("spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims\n%v",
			diff.Diff(asInternal(*before), asInternal(*now))))
	}
	r.claimSize(claim, old, p.Child("resources", "requests", "storage"))
	r.add(apivalidation.ValidateImmutableField(claim.Spec.VolumeMode, old.Spec.VolumeMode, field.NewPath("volumeMode"))...)
	r.claimAttributesClass(claim, old, p.Child("volumeAttributesClassName"))
	return r.errs
}

// classChange lets a class be set, in now, that the claim had only in its annotation or not at all. Other changes of the
// annotation are errors.
func (r *report) classChange(claim, old *corev1.PersistentVolumeClaim, now *corev1.PersistentVolumeClaimSpec) {
	class := claim.Spec.StorageClassName
	annotated, had := old.Annotations[corev1.BetaStorageClassAnnotation]
	annotation, has := claim.Annotations[corev1.BetaStorageClassAnnotation]
	settable := class != nil && old.Spec.StorageClassName == nil && (!had || *class == annotated)
	if settable {
		now.StorageClassName = nil
	}
	if moved := settable && had && !has; !moved && annotation != annotated {
		r.invalid(field.NewPath("metadata", "annotations", corev1.BetaStorageClassAnnotation), annotation, apivalidation.FieldImmutableErrorMsg)
	}
}

// claimSize allows a smaller size, but not below what there is: it takes back an expansion that failed.
func (r *report) claimSize(claim, old *corev1.PersistentVolumeClaim, p *field.Path) {
	before, now := old.Spec.Resources.Requests[corev1.ResourceStorage], claim.Spec.Resources.Requests[corev1.ResourceStorage]
	if now.Cmp(before) < 0 && now.Cmp(old.Status.Capacity[corev1.ResourceStorage]) <= 0 {
		r.forbidden(p, "field can not be less than status.capacity")
	}
}

func (r *report) claimAttributesClass(claim, old *corev1.PersistentVolumeClaim, p *field.Path) {
	class := claim.Spec.VolumeAttributesClassName
	if old.Status.CurrentVolumeAttributesClassName == nil || equality.Semantic.DeepEqual(class, old.Spec.VolumeAttributesClassName) {
		return
	}
	const current = "is forbidden when status.currentVolumeAttributesClassName is not nil"
	if class == nil {
		r.forbidden(p, "update to nil "+current)
	} else if *class == "" {
		r.forbidden(p, "update to empty string "+current)
	}
}

// ValidateClaimStatusUpdate validates an update of a claim's status.
func ValidateClaimStatusUpdate(claim, _ *corev1.PersistentVolumeClaim) field.ErrorList {
	var r report
	status, p := &claim.Status, field.NewPath("status")
	if len(claim.Spec.AccessModes) == 0 {
		r.required(field.NewPath("Spec", "accessModes"), "") // which only claims of older servers lack
	}
	for _, name := range sorted(status.Capacity) {
		q := status.Capacity[name]
		r.basicQuantity(q.Value(), p.Child("capacity").Key(string(name)))
	}
	if h := status.HealthStatus; h != nil {
		for i, c := range h.HealthConditions {
			if c.Reason != "" {
				r.invalid(p.Child("healthStatus", "healthConditions").Index(i).Child("reason"), c.Reason, metavalidation.IsValidConditionReason(c.Reason)...)
			}
		}
	}
	r.resizeStatuses(status.AllocatedResourceStatuses, p.Child("allocatedResourceStatuses"))
	r.allocatedStorage(status.AllocatedResources, p.Child("allocatedResources"))
	return r.errs
}

func (r *report) resizeStatuses(statuses map[corev1.ResourceName]corev1.ClaimResourceStatus, p *field.Path) {
	known := []corev1.ClaimResourceStatus{
		corev1.PersistentVolumeClaimControllerResizeInProgress, corev1.PersistentVolumeClaimControllerResizeInfeasible,
		corev1.PersistentVolumeClaimNodeResizeInProgress, corev1.PersistentVolumeClaimNodeResizeInfeasible,
		corev1.PersistentVolumeClaimNodeResizePending,
	}
	for _, name := range sorted(statuses) {
		r.claimResource(string(name), p)
		if !slices.Contains(known, statuses[name]) {
			r.add(field.NotSupported(p, name, known)) // the error names the resource, not its status
		}
	}
}

func (r *report) allocatedStorage(list corev1.ResourceList, p *field.Path) {
	for _, name := range sorted(list) {
		before := len(r.errs)
		r.claimResource(string(name), p)
		if len(r.errs) > before {
			continue
		}
		q := list[name]
		r.basicQuantity(q.Value(), p.Key(string(name)))
	}
}

// claimResource requires the name of a resource of claims: storage, or one of another domain.
func (r *report) claimResource(name string, p *field.Path) {
	before := len(r.errs)
	r.qualifiedName(p, name)
	if len(r.errs) == before && native(corev1.ResourceName(name)) && name != string(corev1.ResourceStorage) {
		r.add(field.NotSupported(p, name, []corev1.ResourceName{corev1.ResourceStorage}))
	}
}
