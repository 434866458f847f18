package batch

import (
	"context"
	"maps"
	"math"
	"strconv"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-dev/keelson/registry"
)

// legacyUID and legacyName are the labels of pods before labels of the project got a prefix.
const (
	legacyUID  = "controller-uid"
	legacyName = "job-name"
)

// orphaning is what a client is told whose delete does not say what becomes of the pods.
const orphaning = "child pods are preserved by default when jobs are deleted; " +
	"set propagationPolicy=Background to remove them or set propagationPolicy=Orphan to suppress this warning"

func jobs() registry.Kind {
	parts := registry.Parts[*batchv1.Job]{
		Spec:   registry.PartOf(func(j *batchv1.Job) *batchv1.JobSpec { return &j.Spec }),
		Status: registry.PartOf(func(j *batchv1.Job) *batchv1.JobStatus { return &j.Status }),
	}
	return registry.Definition[*batchv1.Job]{
		Names:        registry.Names{Kind: "Job", Plural: "jobs", Singular: "job", Categories: []string{"all"}},
		GroupVersion: batchv1.SchemeGroupVersion,
		Namespaced:   true,
		New:          func() *batchv1.Job { return &batchv1.Job{} },
		NewList:      func() runtime.Object { return &batchv1.JobList{} },
		Rules: registry.Rules[*batchv1.Job]{
			Default: defaultJob,
			PrepareCreate: func(ctx context.Context, j *batchv1.Job) {
				generateSelector(j)
				parts.PrepareCreate(ctx, j)
				drop(&j.Spec, nil)
			},
			PrepareUpdate: func(ctx context.Context, j, old *batchv1.Job) {
				j.Labels = maps.Clone(j.Labels)
				drop(&j.Spec, &old.Spec)
				parts.PrepareUpdate(ctx, j, old)
			},
			Validate:       validateJob,
			ValidateUpdate: validateJobUpdate,
			Guard:          warnJob,
			Deletion:       registry.Deletion[*batchv1.Job]{Orphans: true, OrphansWarning: orphaning},
		},
		Fields: func(j *batchv1.Job) fields.Set {
			return fields.Set{"status.successful": strconv.Itoa(int(j.Status.Succeeded))}
		},
		Sub: registry.Subresources[*batchv1.Job]{Views: map[string]registry.View[*batchv1.Job]{"status": {
			PrepareUpdate: func(ctx context.Context, j, old *batchv1.Job) {
				j.Labels = maps.Clone(j.Labels)
				parts.PrepareStatus(ctx, j, old)
			},
			ValidateUpdate: validateJobStatus,
		}}},
		Columns: jobColumns(),
	}.Kind()
}

func defaultJob(j *batchv1.Job) {
	spec := &j.Spec
	if spec.Completions == nil && spec.Parallelism == nil {
		spec.Completions = new(int32(1))
	}
	if spec.Parallelism == nil {
		spec.Parallelism = new(int32(1))
	}
	if spec.BackoffLimit == nil {
		spec.BackoffLimit = new(int32(6))
		if spec.BackoffLimitPerIndex != nil {
			spec.BackoffLimit = new(int32(math.MaxInt32))
		}
	}
	if len(j.Labels) == 0 && spec.Template.Labels != nil {
		// The same map: a selector that is generated now labels the job, too, as upstream has it. The preparation of
		// writes parts them.
		j.Labels = spec.Template.Labels
	}
	if spec.CompletionMode == nil {
		spec.CompletionMode = new(batchv1.NonIndexedCompletion)
	}
	if spec.Suspend == nil {
		spec.Suspend = new(false)
	}
	if spec.PodReplacementPolicy == nil {
		spec.PodReplacementPolicy = new(batchv1.TerminatingOrFailed)
		if spec.PodFailurePolicy != nil {
			spec.PodReplacementPolicy = new(batchv1.Failed)
		}
	}
	if spec.ManualSelector == nil {
		spec.ManualSelector = new(false)
	}
	defaultSpec(spec)
}

// generateSelector labels the pods of a new job with its name and UID and selects them by the latter, unless the user
// selects the pods. It keeps labels that the user set; validation refuses wrong ones.
func generateSelector(j *batchv1.Job) {
	template := &j.Spec.Template
	if !isSet(j.Spec.ManualSelector) {
		if template.Labels == nil {
			template.Labels = map[string]string{}
		}
		for label, value := range generatedLabels(j) {
			if _, set := template.Labels[label]; !set {
				template.Labels[label] = value
			}
		}
		if j.Spec.Selector == nil {
			j.Spec.Selector = &metav1.LabelSelector{}
		}
		if j.Spec.Selector.MatchLabels == nil {
			j.Spec.Selector.MatchLabels = map[string]string{}
		}
		if _, set := j.Spec.Selector.MatchLabels[batchv1.ControllerUidLabel]; !set {
			j.Spec.Selector.MatchLabels[batchv1.ControllerUidLabel] = string(j.UID)
		}
	}
	if len(j.Labels) == 0 && template.Labels != nil {
		j.Labels = template.Labels // the default of what is stored
	}
	j.Labels = maps.Clone(j.Labels)
}

// generatedLabels are the labels by which a job finds its pods.
func generatedLabels(j *batchv1.Job) map[string]string {
	return map[string]string{
		legacyUID: string(j.UID), legacyName: j.Name,
		batchv1.ControllerUidLabel: string(j.UID), batchv1.JobNameLabel: j.Name,
	}
}

// warnJob refuses nothing.
func warnJob(ctx context.Context, j, old *batchv1.Job) error {
	if old == nil {
		warnName(ctx, j.Name)
	}
	if old == nil || j.Generation != old.Generation {
		warnSpec(ctx, field.NewPath("spec"), &j.Spec)
	}
	return nil
}
