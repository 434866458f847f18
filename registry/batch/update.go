package batch

import (
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-dev/keelson/podspec"
	"github.com/keelson-dev/keelson/registry/internal/check"
)

func validateJobUpdate(j, old *batchv1.Job) field.ErrorList {
	path, spec, before := field.NewPath("spec"), &j.Spec, &old.Spec
	errs := validateSpec(spec, path, podspec.TemplateUpdate(&before.Template))
	errs = append(errs, validateSelector(spec, metavalidation.LabelSelectorHasInvalidLabelValue(before.Selector))...)
	errs = append(errs, validateCompletions(spec, before, path.Child("completions"))...)
	errs = append(errs, check.Immutable(path.Child("selector"), spec.Selector, before.Selector)...)
	errs = append(errs, validateTemplateUpdate(j, old, path)...)
	errs = append(errs, check.Immutable(path.Child("completionMode"), spec.CompletionMode, before.CompletionMode)...)
	errs = append(errs, check.ImmutableAs(path.Child("podFailurePolicy"), spec.PodFailurePolicy, before.PodFailurePolicy,
		podspec.Shown(spec.PodFailurePolicy))...)
	errs = append(errs, check.Immutable(path.Child("backoffLimitPerIndex"), spec.BackoffLimitPerIndex, before.BackoffLimitPerIndex)...)
	errs = append(errs, check.Immutable(path.Child("managedBy"), spec.ManagedBy, before.ManagedBy)...)
	errs = append(errs, check.ImmutableAs(path.Child("successPolicy"), spec.SuccessPolicy, before.SuccessPolicy,
		podspec.Shown(spec.SuccessPolicy))...)
	errs = append(errs, validateScheduling(spec, before, path)...)
	return append(errs, validateHostnames(j)...)
}

// validateScheduling refuses changes of a field whose feature is off. Another server may have stored it.
func validateScheduling(spec, old *batchv1.JobSpec, path *field.Path) field.ErrorList {
	if equality.Semantic.DeepEqual(spec.Scheduling, old.Scheduling) {
		return nil
	}
	return field.ErrorList{field.Forbidden(path.Child("scheduling"), "")}
}

// validateCompletions allows indexed jobs to change completions together with parallelism, and others not at all.
func validateCompletions(spec, old *batchv1.JobSpec, path *field.Path) field.ErrorList {
	switch {
	case !isIndexed(spec):
		return check.Immutable(path, spec.Completions, old.Completions)
	case equality.Semantic.DeepEqual(spec.Completions, old.Completions) || spec.Completions == nil: // nil is refused elsewhere
		return nil
	case spec.Parallelism == nil || *spec.Completions != *spec.Parallelism:
		return field.ErrorList{field.Invalid(path, spec.Completions,
			fmt.Sprintf("can only be modified in tandem with %s", path.Root().Child("parallelism")))}
	}
	return nil
}

// isMutable reports whether a job's template may change: while the job is suspended and has no pods any more.
func isMutable(j *batchv1.Job) bool {
	stopped := j.Status.StartTime == nil || isTrue(j.Status.Conditions, batchv1.JobSuspended)
	return isSet(j.Spec.Suspend) && stopped && j.Status.Active == 0
}

// validateTemplateUpdate allows a suspended job to change where its pods may run and what they ask for, so that a queue
// can fit them to the nodes that it has for them. Nothing else of a template changes.
func validateTemplateUpdate(j, old *batchv1.Job, path *field.Path) field.ErrorList {
	template, before := &j.Spec.Template, old.Spec.Template.DeepCopy()
	if !isMutable(old) {
		return check.ImmutableAs(path.Child("template"), template, before, podspec.Shown(template))
	}
	takeDirectives(template, before)
	takeResources(template.Spec.Containers, before.Spec.Containers)
	takeResources(template.Spec.InitContainers, before.Spec.InitContainers)
	return check.ImmutableAs(path.Child("template.spec"), template.Spec, before.Spec, podspec.Shown(template.Spec))
}

// takeDirectives changes a template, a copy, where another may differ in what schedulers obey.
func takeDirectives(from, to *corev1.PodTemplateSpec) {
	switch now, before := from.Spec.Affinity, to.Spec.Affinity; {
	case now == nil && before != nil:
		if before.NodeAffinity = nil; *before == (corev1.Affinity{}) {
			to.Spec.Affinity = nil
		}
	case now != nil && before == nil:
		to.Spec.Affinity = &corev1.Affinity{NodeAffinity: now.NodeAffinity}
	case now != nil:
		before.NodeAffinity = now.NodeAffinity
	}
	to.Spec.NodeSelector = from.Spec.NodeSelector
	to.Spec.Tolerations = from.Spec.Tolerations
	to.Spec.SchedulingGates = from.Spec.SchedulingGates
}

// takeResources changes what containers ask for, if they are the same ones.
func takeResources(from, to []corev1.Container) {
	if len(from) != len(to) {
		return
	}
	for i := range from {
		if from[i].Name == to[i].Name {
			to[i].Resources = from[i].Resources
		}
	}
}
