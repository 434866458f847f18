package apps

import (
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-dev/keelson/podspec"
	"github.com/keelson-dev/keelson/registry/internal/check"
)

// leniency is what an update of a StatefulSet may keep of the old one.
type leniency struct {
	template podspec.Options
	// update accepts service names and claims as they are: they cannot change.
	update bool
	// anyTemplate accepts a template that is not valid.
	anyTemplate bool
	// recreate accepts the strategy Recreate, whose feature is off by default.
	recreate bool
}

func validateStatefulSetUpdate(s, old *appsv1.StatefulSet) field.ErrorList {
	allow := leniency{
		template: podspec.TemplateUpdate(&old.Spec.Template), update: true,
		recreate: old.Spec.UpdateStrategy.Type == appsv1.RecreateStatefulSetStrategyType,
	}
	allow.anyTemplate = len(validateStatefulSet(&old.Spec, nil, allow)) > 0
	path := field.NewPath("spec")
	errs := validateStatefulSet(&s.Spec, path, allow)
	errs = append(errs, check.Immutable(path.Child("selector"), s.Spec.Selector, old.Spec.Selector)...)
	errs = append(errs, check.ImmutableAs(path.Child("volumeClaimTemplates"), s.Spec.VolumeClaimTemplates, old.Spec.VolumeClaimTemplates,
		podspec.ClaimTemplatesInErrors(s.Spec.VolumeClaimTemplates))...)
	errs = append(errs, check.Immutable(path.Child("serviceName"), s.Spec.ServiceName, old.Spec.ServiceName)...)
	return append(errs, check.Immutable(path.Child("podManagementPolicy"), s.Spec.PodManagementPolicy, old.Spec.PodManagementPolicy)...)
}

func validateStatefulSet(spec *appsv1.StatefulSetSpec, path *field.Path, allow leniency) field.ErrorList {
	errs := validateManagement(spec.PodManagementPolicy, path.Child("podManagementPolicy"))
	errs = append(errs, validateUpdateStrategy(&spec.UpdateStrategy, path.Child("updateStrategy"), allow.recreate)...)
	if policy, at := spec.PersistentVolumeClaimRetentionPolicy, path.Child("persistentVolumeClaimRetentionPolicy"); policy != nil {
		errs = append(errs, validateRetention(policy.WhenDeleted, at.Child("whenDeleted"))...)
		errs = append(errs, validateRetention(policy.WhenScaled, at.Child("whenScaled"))...)
	}
	for i := range spec.VolumeClaimTemplates {
		if !allow.update {
			errs = append(errs, podspec.ValidateClaimTemplate(&spec.VolumeClaimTemplates[i].Spec,
				path.Child("volumeClaimTemplates").Index(i).Child("spec"))...)
		}
	}
	errs = append(errs, check.Nonnegative(path.Child("replicas"), valueOf(spec.Replicas))...)
	errs = append(errs, check.Nonnegative(path.Child("minReadySeconds"), spec.MinReadySeconds)...)
	if spec.Ordinals != nil {
		errs = append(errs, check.Nonnegative(path.Child("ordinals.start"), spec.Ordinals.Start)...)
	}
	if !allow.update && spec.ServiceName != "" {
		errs = append(errs, check.DNSLabel(path.Child("serviceName"), spec.ServiceName)...)
	}
	errs = append(errs, validateStatefulTemplate(spec, path, allow)...)
	template := path.Child("template", "spec")
	errs = append(errs, check.OneOf(template.Child("restartPolicy"), spec.Template.Spec.RestartPolicy, corev1.RestartPolicyAlways)...)
	if spec.Template.Spec.ActiveDeadlineSeconds != nil {
		errs = append(errs, field.Forbidden(template.Child("activeDeadlineSeconds"), "activeDeadlineSeconds in StatefulSet is not Supported"))
	}
	return errs
}

func validateManagement(policy appsv1.PodManagementPolicyType, path *field.Path) field.ErrorList {
	switch policy {
	case "":
		return field.ErrorList{field.Required(path, "")}
	case appsv1.OrderedReadyPodManagement, appsv1.ParallelPodManagement:
		return nil
	}
	return field.ErrorList{field.Invalid(path, policy,
		fmt.Sprintf("must be '%s' or '%s'", appsv1.OrderedReadyPodManagement, appsv1.ParallelPodManagement))}
}

func validateRetention(policy appsv1.PersistentVolumeClaimRetentionPolicyType, path *field.Path) field.ErrorList {
	return check.OneOf(path, policy, appsv1.RetainPersistentVolumeClaimRetentionPolicyType, appsv1.DeletePersistentVolumeClaimRetentionPolicyType)
}

// shownUpdateStrategy is the form of a strategy in errors.
type shownUpdateStrategy struct {
	Type          appsv1.StatefulSetUpdateStrategyType
	RollingUpdate *shownPartition
}

type shownPartition struct {
	Partition      int32
	MaxUnavailable *intstr.IntOrString
}

func showPartition(r *appsv1.RollingUpdateStatefulSetStrategy) *shownPartition {
	if r == nil {
		return nil
	}
	return &shownPartition{Partition: valueOf(r.Partition), MaxUnavailable: r.MaxUnavailable}
}

func validateUpdateStrategy(s *appsv1.StatefulSetUpdateStrategy, path *field.Path, recreate bool) field.ErrorList {
	const rolling, onDelete = appsv1.RollingUpdateStatefulSetStrategyType, appsv1.OnDeleteStatefulSetStrategyType
	switch {
	case s.Type == "":
		return field.ErrorList{field.Required(path, "")}
	case s.Type == onDelete, s.Type == appsv1.RecreateStatefulSetStrategyType && recreate:
		if s.RollingUpdate != nil {
			return field.ErrorList{field.Invalid(path.Child("rollingUpdate"), showPartition(s.RollingUpdate),
				fmt.Sprintf("only allowed for updateStrategy '%s'", rolling))}
		}
		return nil
	case s.Type == rolling:
		return validatePartition(s.RollingUpdate, path.Child("rollingUpdate"))
	}
	choice := fmt.Sprintf("must be '%s' or '%s'", rolling, onDelete)
	if recreate {
		choice = fmt.Sprintf("must be '%s', '%s', or '%s'", rolling, onDelete, appsv1.RecreateStatefulSetStrategyType)
	}
	return field.ErrorList{field.Invalid(path, shownUpdateStrategy{s.Type, showPartition(s.RollingUpdate)}, choice)}
}

func validatePartition(r *appsv1.RollingUpdateStatefulSetStrategy, path *field.Path) field.ErrorList {
	if r == nil {
		return nil
	}
	errs := check.Nonnegative(path.Child("partition"), valueOf(r.Partition))
	if r.MaxUnavailable == nil {
		return errs
	}
	path = path.Child("maxUnavailable")
	errs = append(errs, check.IntOrPercent(path, *r.MaxUnavailable)...)
	if check.IsZero(*r.MaxUnavailable) {
		errs = append(errs, field.Invalid(path, *r.MaxUnavailable, "cannot be 0"))
	}
	return append(errs, check.AtMost100Percent(path, *r.MaxUnavailable)...)
}

// validateStatefulTemplate validates the selector, and the template of the pods as they will be.
func validateStatefulTemplate(spec *appsv1.StatefulSetSpec, path *field.Path, allow leniency) field.ErrorList {
	var errs field.ErrorList
	at := path.Child("selector")
	if spec.Selector == nil {
		errs = append(errs, field.Required(at, ""))
	} else {
		errs = append(errs, metavalidation.ValidateLabelSelector(spec.Selector, metavalidation.LabelSelectorValidationOptions{}, at)...)
		if len(spec.Selector.MatchLabels)+len(spec.Selector.MatchExpressions) == 0 {
			errs = append(errs, field.Invalid(at, spec.Selector, "empty selector is invalid for statefulset"))
		}
	}
	selector, err := metav1.LabelSelectorAsSelector(spec.Selector)
	if err != nil {
		return append(errs, field.Invalid(at, spec.Selector, ""))
	}
	template, path := completed(spec), path.Child("template")
	if !selector.Empty() && !selector.Matches(labels.Set(template.Labels)) {
		errs = append(errs, field.Invalid(path.Child("metadata", "labels"), template.Labels, "`selector` does not match template `labels`"))
	}
	if !allow.anyTemplate {
		errs = append(errs, podspec.ValidateTemplate(template, path, allow.template)...)
	}
	return append(errs, podspec.ValidateTemplateMeta(template, path, allow.template)...)
}

// completed returns the template with what the controller sets in pods: claims as volumes. It sets their names in the
// network, too, for whatever the template has.
func completed(spec *appsv1.StatefulSetSpec) *corev1.PodTemplateSpec {
	template := spec.Template.DeepCopy()
	template.Spec.Subdomain, template.Spec.Hostname = "", ""
	var volumes []corev1.Volume
	for _, claim := range spec.VolumeClaimTemplates {
		volume := corev1.Volume{Name: claim.Name, VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim.Name},
		}}
		if !slices.ContainsFunc(volumes, named(claim.Name)) {
			volumes = append(volumes, volume)
		}
	}
	claimed := len(volumes)
	for _, volume := range template.Spec.Volumes {
		if !slices.ContainsFunc(volumes[:claimed], named(volume.Name)) {
			volumes = append(volumes, volume)
		}
	}
	template.Spec.Volumes = volumes
	return template
}

func named(name string) func(corev1.Volume) bool {
	return func(v corev1.Volume) bool { return v.Name == name }
}

func validateStatefulSetStatus(s, old *appsv1.StatefulSet) field.ErrorList {
	status, path := &s.Status, field.NewPath("status")
	errs := check.Nonnegative(path.Child("replicas"), status.Replicas)
	errs = append(errs, check.Nonnegative(path.Child("readyReplicas"), status.ReadyReplicas)...)
	errs = append(errs, check.Nonnegative(path.Child("currentReplicas"), status.CurrentReplicas)...)
	errs = append(errs, check.Nonnegative(path.Child("updatedReplicas"), status.UpdatedReplicas)...)
	errs = append(errs, check.Nonnegative(path.Child("availableReplicas"), status.AvailableReplicas)...)
	errs = append(errs, check.Nonnegative(path.Child("observedGeneration"), status.ObservedGeneration)...)
	errs = append(errs, check.NonnegativeIfSet(path.Child("collisionCount"), status.CollisionCount)...)
	errs = append(errs, validateCounts(path, status.Replicas, []count{
		{"readyReplicas", status.ReadyReplicas}, {"currentReplicas", status.CurrentReplicas},
		{"updatedReplicas", status.UpdatedReplicas}, {"availableReplicas", status.AvailableReplicas},
	})...)
	if status.AvailableReplicas > status.ReadyReplicas {
		errs = append(errs, field.Invalid(path.Child("availableReplicas"), status.AvailableReplicas, "cannot be greater than status.readyReplicas"))
	}
	if before := old.Status.CollisionCount; before != nil && (status.CollisionCount == nil || *status.CollisionCount < *before) {
		errs = append(errs, field.Invalid(path.Child("collisionCount"), valueOf(status.CollisionCount), "cannot be decremented"))
	}
	return errs
}
