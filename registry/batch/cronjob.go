package batch

import (
	"context"
	"fmt"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-dev/keelson/internal/cronschedule"
	"github.com/keelson-dev/keelson/podspec"
	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/registry/internal/check"
)

// longestName leaves room for what names of jobs have beyond the name of their CronJob: a dash and ten digits.
const longestName = validation.DNS1035LabelMaxLength - 11

func cronJobs() registry.Kind {
	parts := registry.Parts[*batchv1.CronJob]{
		Spec:   registry.PartOf(func(c *batchv1.CronJob) *batchv1.CronJobSpec { return &c.Spec }),
		Status: registry.PartOf(func(c *batchv1.CronJob) *batchv1.CronJobStatus { return &c.Status }),
	}
	return registry.Definition[*batchv1.CronJob]{
		Names: registry.Names{
			Kind: "CronJob", Plural: "cronjobs", Singular: "cronjob", Short: []string{"cj"}, Categories: []string{"all"},
		},
		GroupVersion: batchv1.SchemeGroupVersion,
		Older:        olderCronJobs(),
		Namespaced:   true,
		New:          func() *batchv1.CronJob { return &batchv1.CronJob{} },
		NewList:      func() runtime.Object { return &batchv1.CronJobList{} },
		Rules: registry.Rules[*batchv1.CronJob]{
			Default: defaultCronJob,
			PrepareCreate: func(ctx context.Context, c *batchv1.CronJob) {
				parts.PrepareCreate(ctx, c)
				drop(&c.Spec.JobTemplate.Spec, nil)
			},
			PrepareUpdate: func(ctx context.Context, c, old *batchv1.CronJob) {
				drop(&c.Spec.JobTemplate.Spec, &old.Spec.JobTemplate.Spec)
				parts.PrepareUpdate(ctx, c, old)
			},
			Validate: validateCronJob,
			ValidateUpdate: func(c, old *batchv1.CronJob) field.ErrorList {
				return validateCronJobSpec(&c.Spec, &old.Spec)
			},
			Guard: warnCronJob,
		},
		Sub: registry.Subresources[*batchv1.CronJob]{Views: map[string]registry.View[*batchv1.CronJob]{"status": {
			PrepareUpdate: parts.PrepareStatus,
		}}},
		Columns: cronJobColumns(),
	}.Kind()
}

func defaultCronJob(c *batchv1.CronJob) {
	if c.Spec.ConcurrencyPolicy == "" {
		c.Spec.ConcurrencyPolicy = batchv1.AllowConcurrent
	}
	if c.Spec.Suspend == nil {
		c.Spec.Suspend = new(false)
	}
	if c.Spec.SuccessfulJobsHistoryLimit == nil {
		c.Spec.SuccessfulJobsHistoryLimit = new(int32(3))
	}
	if c.Spec.FailedJobsHistoryLimit == nil {
		c.Spec.FailedJobsHistoryLimit = new(int32(1))
	}
	defaultSpec(&c.Spec.JobTemplate.Spec)
}

func validateCronJob(c *batchv1.CronJob) field.ErrorList {
	errs := validateCronJobSpec(&c.Spec, nil)
	if len(c.Name) > longestName {
		errs = append(errs, field.Invalid(field.NewPath("metadata", "name"), c.Name, fmt.Sprintf("must be no more than %d characters", longestName)))
	}
	return errs
}

// validateCronJobSpec validates a spec; old is nil for a new one.
func validateCronJobSpec(spec, old *batchv1.CronJobSpec) field.ErrorList {
	path := field.NewPath("spec")
	errs := validateSchedule(spec, old, path.Child("schedule"))
	if spec.StartingDeadlineSeconds != nil {
		errs = append(errs, check.Nonnegative(path.Child("startingDeadlineSeconds"), *spec.StartingDeadlineSeconds)...)
	}
	if zone := spec.TimeZone; zone != nil && (old == nil || !equalPointers(old.TimeZone, zone)) {
		errs = append(errs, validateZone(zone, path.Child("timeZone"))...)
	}
	errs = append(errs, check.RequiredOneOf(path.Child("concurrencyPolicy"), spec.ConcurrencyPolicy,
		batchv1.AllowConcurrent, batchv1.ForbidConcurrent, batchv1.ReplaceConcurrent)...)
	errs = append(errs, validateJobTemplate(spec, old, path.Child("jobTemplate", "spec"))...)
	errs = append(errs, check.NonnegativeIfSet(path.Child("successfulJobsHistoryLimit"), spec.SuccessfulJobsHistoryLimit)...)
	return append(errs, check.NonnegativeIfSet(path.Child("failedJobsHistoryLimit"), spec.FailedJobsHistoryLimit)...)
}

func validateJobTemplate(spec, old *batchv1.CronJobSpec, path *field.Path) field.ErrorList {
	template := &spec.JobTemplate.Spec
	var o podspec.Options
	if old != nil {
		o = podspec.TemplateUpdate(&old.JobTemplate.Spec.Template)
	}
	errs := validateSpec(template, path, o)
	if old != nil {
		errs = append(errs, validateScheduling(template, &old.JobTemplate.Spec, path)...)
	}
	if template.Selector != nil {
		errs = append(errs, field.Invalid(path.Child("selector"), template.Selector, "`selector` will be auto-generated"))
	}
	if isSet(template.ManualSelector) {
		errs = append(errs, field.NotSupported(path.Child("manualSelector"), template.ManualSelector, []string{"nil", "false"}))
	}
	return errs
}

// validateSchedule also refuses time zones in a schedule, but for one that had one.
func validateSchedule(spec, old *batchv1.CronJobSpec, path *field.Path) field.ErrorList {
	schedule := spec.Schedule
	if schedule == "" {
		return field.ErrorList{field.Required(path, "")}
	}
	var errs field.ErrorList
	if _, err := cronschedule.Parse(schedule); err != nil {
		errs = append(errs, field.Invalid(path, schedule, err.Error()))
	}
	if !strings.Contains(schedule, "TZ") {
		return errs
	}
	if old == nil || !strings.Contains(old.Schedule, "TZ") {
		return append(errs, field.Invalid(path, schedule, "cannot use TZ or CRON_TZ in schedule, use timeZone field instead"))
	}
	if spec.TimeZone != nil {
		errs = append(errs, field.Invalid(path, schedule, "cannot use both timeZone field and TZ or CRON_TZ in schedule"))
	}
	return errs
}

func validateZone(zone *string, path *field.Path) field.ErrorList {
	if *zone == "" {
		return field.ErrorList{field.Invalid(path, zone, "timeZone must be nil or non-empty string")}
	}
	for part := range strings.SplitSeq(*zone, "/") {
		if !isZonePart(part) {
			return field.ErrorList{field.Invalid(path, zone, "unknown time zone "+*zone)}
		}
	}
	var errs field.ErrorList
	if strings.EqualFold(*zone, "Local") {
		errs = append(errs, field.Invalid(path, zone, "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones"))
	}
	if _, err := time.LoadLocation(*zone); err != nil {
		errs = append(errs, field.Invalid(path, zone, err.Error()))
	}
	return errs
}

// isZonePart tells what may be part of a time zone's name, which is a path. Digits are not in the rules for names, but
// in some names.
func isZonePart(part string) bool {
	if len(part) == 0 || len(part) > 14 || part == "." || part == ".." || part[0] == '-' {
		return false
	}
	for _, c := range part {
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
		if !letter && !strings.ContainsRune(".-_+", c) {
			return false
		}
	}
	return true
}

// warnCronJob refuses nothing.
func warnCronJob(ctx context.Context, c, old *batchv1.CronJob) error {
	if old == nil {
		warnName(ctx, c.Name)
	}
	if old == nil || c.Generation != old.Generation {
		warnSpec(ctx, field.NewPath("spec", "jobTemplate", "spec"), &c.Spec.JobTemplate.Spec)
	}
	if old != nil && strings.Contains(c.Spec.Schedule, "TZ") {
		registry.Warn(ctx, "cannot use TZ or CRON_TZ in spec.spec.schedule, use timeZone instead, see https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details")
	}
	return nil
}
