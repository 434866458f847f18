package batch

import (
	"context"
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-dev/keelson/podspec"
	"github.com/keelson-dev/keelson/registry"
)

// Kinds returns the kinds of the group in discovery order.
func Kinds() []registry.Kind {
	return []registry.Kind{cronJobs(), jobs()}
}

// isSet reports whether a flag is set.
func isSet(flag *bool) bool { return flag != nil && *flag }

func isIndexed(spec *batchv1.JobSpec) bool {
	return spec.CompletionMode != nil && *spec.CompletionMode == batchv1.IndexedCompletion
}

// defaultSpec fills the fields of a job's spec that have defaults in templates of CronJobs, too.
func defaultSpec(spec *batchv1.JobSpec) {
	podspec.Default(&spec.Template.Spec)
	if spec.PodFailurePolicy == nil {
		return
	}
	for _, rule := range spec.PodFailurePolicy.Rules {
		for i := range rule.OnPodConditions {
			if pattern := &rule.OnPodConditions[i]; pattern.Status == "" {
				pattern.Status = corev1.ConditionTrue
			}
		}
	}
}

// drop removes from a spec the fields whose features are off by default, unless the old spec, nil for a new one, uses
// them: scheduling belongs to the feature WorkloadWithJob.
func drop(spec, old *batchv1.JobSpec) {
	if old == nil {
		spec.Scheduling = nil
		podspec.DropTemplate(&spec.Template, nil)
		return
	}
	if old.Scheduling == nil {
		spec.Scheduling = nil
	}
	podspec.DropTemplate(&spec.Template, &old.Template)
}

// warnName warns of a new object's name that is no label: names of pods are made from it.
func warnName(ctx context.Context, name string) {
	if messages := validation.IsDNS1123Label(name); len(messages) > 0 {
		registry.Warn(ctx, fmt.Sprintf("metadata.name: this is used in Pod names and hostnames, which can result in surprising behavior; a DNS label is recommended: %v", messages))
	}
}

// warnSpec warns of an indexed job whose status may become too large.
func warnSpec(ctx context.Context, path *field.Path, spec *batchv1.JobSpec) {
	if isIndexed(spec) && spec.Completions != nil && *spec.Completions > manyCompletions &&
		spec.Parallelism != nil && *spec.Parallelism > parallelismForMany {
		registry.Warn(ctx, fmt.Sprintf("%s: In Indexed Jobs with a number of completions higher than 10^5 and a parallelism higher than 10^4, Kubernetes might not be able to track completedIndexes when a big number of indexes fail", path))
	}
}
