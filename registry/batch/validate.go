package batch

import (
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-dev/keelson/podspec"
	"github.com/keelson-dev/keelson/registry/internal/check"
)

// The status of an indexed job lists indexes, which bounds what an object may grow to.
const (
	mostIndexedParallelism = 100_000
	mostFailedIndexes      = 100_000
	manyCompletions        = 100_000
	parallelismForMany     = 10_000
	failedIndexesForMany   = 10_000
	longestManagedBy       = 63
)

func validateJob(j *batchv1.Job) field.ErrorList {
	errs := validateGenerated(j, true)
	errs = append(errs, validateSpec(&j.Spec, field.NewPath("spec"), podspec.Options{})...)
	errs = append(errs, validateSelector(&j.Spec, false)...)
	return append(errs, validateHostnames(j)...)
}

// validateGenerated requires of a selector that was generated that it selects the job's own pods.
func validateGenerated(j *batchv1.Job, prefixed bool) field.ErrorList {
	if isSet(j.Spec.ManualSelector) || j.Spec.Selector == nil {
		return nil
	}
	var errs field.ErrorList
	if j.UID == "" {
		errs = append(errs, field.Required(field.NewPath("metadata", "uid"), ""))
	}
	names := []string{legacyUID, legacyName}
	if prefixed {
		names = append(names, batchv1.ControllerUidLabel, batchv1.JobNameLabel)
	}
	generated, expected := generatedLabels(j), labels.Set{}
	for _, name := range names {
		expected[name] = generated[name]
		path := field.NewPath("spec", "template", "metadata", "labels").Key(name)
		message := fmt.Sprintf("must be '%s'", generated[name])
		if value, set := j.Spec.Template.Labels[name]; !set {
			errs = append(errs, field.Required(path, message))
		} else if value != generated[name] {
			errs = append(errs, field.Invalid(path, j.Spec.Template.Labels, message))
		}
	}
	if s, err := metav1.LabelSelectorAsSelector(j.Spec.Selector); err == nil && !s.Matches(expected) {
		errs = append(errs, field.Invalid(field.NewPath("spec", "selector"), j.Spec.Selector, "`selector` not auto-generated"))
	}
	return errs
}

// validateSelector requires a selector that matches the template. lenient allows values of labels that older rules
// accepted.
func validateSelector(spec *batchv1.JobSpec, lenient bool) field.ErrorList {
	var errs field.ErrorList
	path := field.NewPath("spec")
	if spec.Selector == nil {
		errs = append(errs, field.Required(path.Child("selector"), ""))
	} else {
		errs = append(errs, metavalidation.ValidateLabelSelector(spec.Selector,
			metavalidation.LabelSelectorValidationOptions{AllowInvalidLabelValueInSelector: lenient}, path.Child("selector"))...)
	}
	if s, err := metav1.LabelSelectorAsSelector(spec.Selector); err == nil && !s.Matches(labels.Set(spec.Template.Labels)) {
		errs = append(errs, field.Invalid(path.Child("template", "metadata", "labels"), spec.Template.Labels, "`selector` does not match template `labels`"))
	}
	return errs
}

// validateHostnames requires that the hostname of an indexed job's last pod, which has the index, is a label.
func validateHostnames(j *batchv1.Job) field.ErrorList {
	if !isIndexed(&j.Spec) || j.Spec.Completions == nil || *j.Spec.Completions <= 0 {
		return nil
	}
	last := fmt.Sprintf("%s-%d", j.Name, *j.Spec.Completions-1)
	if len(validation.IsDNS1123Label(last)) == 0 {
		return nil
	}
	return field.ErrorList{field.Invalid(field.NewPath("metadata", "name"), j.Name, "will not able to create pod with invalid DNS label: "+last)}
}

// validateSpec validates a spec except for its selector, which those in CronJobs lack.
func validateSpec(spec *batchv1.JobSpec, path *field.Path, o podspec.Options) field.ErrorList {
	errs := validateNumbers(spec, path)
	errs = append(errs, validateMode(spec, path)...)
	if spec.PodFailurePolicy != nil {
		errs = append(errs, validateFailurePolicy(spec, path.Child("podFailurePolicy"))...)
	}
	if spec.SuccessPolicy != nil {
		if isIndexed(spec) {
			errs = append(errs, validateSuccessPolicy(spec, path.Child("successPolicy"))...)
		} else {
			errs = append(errs, field.Invalid(path.Child("successPolicy"), podspec.Shown(spec.SuccessPolicy), needsIndexes))
		}
	}
	if policy := spec.PodReplacementPolicy; policy != nil {
		supported := []batchv1.PodReplacementPolicy{batchv1.Failed, batchv1.TerminatingOrFailed}
		if spec.PodFailurePolicy != nil {
			supported = supported[:1] // a pod that terminates may yet succeed, or fail in a way that the policy knows
		}
		errs = append(errs, check.OneOf(path.Child("podReplacementPolicy"), *policy, supported...)...)
	}
	errs = append(errs, podspec.ValidateTemplate(&spec.Template, path.Child("template"), o)...)
	return append(errs, validateRestartPolicy(spec, path.Child("template", "spec", "restartPolicy"))...)
}

func validateNumbers(spec *batchv1.JobSpec, path *field.Path) field.ErrorList {
	errs := check.NonnegativeIfSet(path.Child("parallelism"), spec.Parallelism)
	errs = append(errs, check.NonnegativeIfSet(path.Child("completions"), spec.Completions)...)
	if spec.ActiveDeadlineSeconds != nil {
		errs = append(errs, check.Nonnegative(path.Child("activeDeadlineSeconds"), *spec.ActiveDeadlineSeconds)...)
	}
	errs = append(errs, check.NonnegativeIfSet(path.Child("backoffLimit"), spec.BackoffLimit)...)
	errs = append(errs, check.NonnegativeIfSet(path.Child("ttlSecondsAfterFinished"), spec.TTLSecondsAfterFinished)...)
	errs = append(errs, check.NonnegativeIfSet(path.Child("backoffLimitPerIndex"), spec.BackoffLimitPerIndex)...)
	if spec.MaxFailedIndexes != nil {
		errs = append(errs, check.Nonnegative(path.Child("maxFailedIndexes"), *spec.MaxFailedIndexes)...)
		if spec.BackoffLimitPerIndex == nil {
			errs = append(errs, field.Required(path.Child("backoffLimitPerIndex"), "when maxFailedIndexes is specified"))
		}
	}
	if by := spec.ManagedBy; by != nil {
		errs = append(errs, validation.IsDomainPrefixedPath(path.Child("managedBy"), *by)...)
		if len(*by) > longestManagedBy {
			errs = append(errs, field.TooLong(path.Child("managedBy"), "", longestManagedBy))
		}
	}
	return errs
}

const needsIndexes = "requires indexed completion mode"

// validateMode validates the completion mode and the fields that go with it.
func validateMode(spec *batchv1.JobSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if mode := spec.CompletionMode; mode != nil {
		errs = append(errs, check.OneOf(path.Child("completionMode"), *mode, batchv1.NonIndexedCompletion, batchv1.IndexedCompletion)...)
	}
	if isIndexed(spec) {
		return append(errs, validateIndexed(spec, path)...)
	}
	if spec.CompletionMode != nil && *spec.CompletionMode != batchv1.NonIndexedCompletion {
		return errs
	}
	if spec.BackoffLimitPerIndex != nil {
		errs = append(errs, field.Invalid(path.Child("backoffLimitPerIndex"), *spec.BackoffLimitPerIndex, needsIndexes))
	}
	if spec.MaxFailedIndexes != nil {
		errs = append(errs, field.Invalid(path.Child("maxFailedIndexes"), *spec.MaxFailedIndexes, needsIndexes))
	}
	return errs
}

func validateIndexed(spec *batchv1.JobSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	atMost := func(name string, n *int32, most int32, message string) {
		if n != nil && *n > most {
			errs = append(errs, field.Invalid(path.Child(name), *n, message))
		}
	}
	completions := spec.Completions
	if completions == nil {
		errs = append(errs, field.Required(path.Child("completions"), fmt.Sprintf("when completion mode is %s", batchv1.IndexedCompletion)))
	}
	atMost("parallelism", spec.Parallelism, mostIndexedParallelism,
		fmt.Sprintf("must be less than or equal to %d when completion mode is %s", mostIndexedParallelism, batchv1.IndexedCompletion))
	if completions != nil {
		atMost("maxFailedIndexes", spec.MaxFailedIndexes, *completions, "must be less than or equal to completions")
	}
	atMost("maxFailedIndexes", spec.MaxFailedIndexes, mostFailedIndexes, fmt.Sprintf("must be less than or equal to %d", mostFailedIndexes))
	if completions == nil || *completions <= manyCompletions || spec.BackoffLimitPerIndex == nil {
		return errs
	}
	if spec.MaxFailedIndexes == nil {
		errs = append(errs, field.Required(path.Child("maxFailedIndexes"), fmt.Sprintf("must be specified when completions is above %d", manyCompletions)))
	}
	const many = "must be less than or equal to %d when completions are above %d and used with backoff limit per index"
	atMost("parallelism", spec.Parallelism, parallelismForMany, fmt.Sprintf(many, parallelismForMany, manyCompletions))
	atMost("maxFailedIndexes", spec.MaxFailedIndexes, failedIndexesForMany, fmt.Sprintf(many, failedIndexesForMany, manyCompletions))
	return errs
}

func validateRestartPolicy(spec *batchv1.JobSpec, path *field.Path) field.ErrorList {
	switch policy := spec.Template.Spec.RestartPolicy; {
	case policy == "" || policy == corev1.RestartPolicyAlways: // the latter is the default
		return field.ErrorList{field.Required(path, fmt.Sprintf("valid values: %q, %q", corev1.RestartPolicyOnFailure, corev1.RestartPolicyNever))}
	case policy != corev1.RestartPolicyOnFailure && policy != corev1.RestartPolicyNever:
		return field.ErrorList{field.NotSupported(path, policy, []corev1.RestartPolicy{corev1.RestartPolicyOnFailure, corev1.RestartPolicyNever})}
	case spec.PodFailurePolicy != nil && policy != corev1.RestartPolicyNever:
		return field.ErrorList{field.Invalid(path, policy, fmt.Sprintf("only %q is supported when podFailurePolicy is specified", corev1.RestartPolicyNever))}
	}
	return nil
}
