package cronjob

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/events"
)

// start starts the job that is due at a time, unless the concurrency policy or the status say otherwise.
func (r *run) start(ctx context.Context, at time.Time) error {
	name := nameOf(r.cj, at)
	started := slices.ContainsFunc(r.cj.Status.Active, func(ref corev1.ObjectReference) bool {
		return ref.Name == name
	})
	if started || r.cj.Status.LastScheduleTime.Equal(&metav1.Time{Time: at}) {
		return nil
	}
	switch r.cj.Spec.ConcurrencyPolicy {
	case batchv1.ForbidConcurrent:
		if len(r.cj.Status.Active) > 0 {
			r.event(corev1.EventTypeNormal, "JobAlreadyActive", "Not starting job because prior execution is running and concurrency policy is Forbid")
			return nil
		}
	case batchv1.ReplaceConcurrent:
		if err := r.replace(ctx); err != nil {
			return err
		}
	}
	return r.create(ctx, at)
}

// replace deletes the active jobs.
func (r *run) replace(ctx context.Context) error {
	for _, ref := range slices.Clone(r.cj.Status.Active) {
		job, err := client.As[*batchv1.Job](r.client.Get(ctx, jobKind().Target(ref.Namespace, ref.Name)))
		if err != nil {
			r.event(corev1.EventTypeWarning, "FailedGet", "Get job: %v", err)
			return err
		}
		if !r.remove(ctx, job) {
			return fmt.Errorf("could not replace job %s/%s", job.Namespace, job.Name)
		}
	}
	return nil
}

// create creates the job and adds it to the status. A job of that name is ours if an earlier write of the status failed.
func (r *run) create(ctx context.Context, at time.Time) error {
	wanted := jobFor(r.cj, at)
	job, err := client.As[*batchv1.Job](r.client.Create(ctx, jobKind().Target(r.cj.Namespace, ""), wanted, metav1.CreateOptions{}))
	switch {
	case apierrors.IsAlreadyExists(err):
		job, err = client.As[*batchv1.Job](r.client.Get(ctx, jobKind().Target(r.cj.Namespace, wanted.Name)))
		if err != nil {
			return err
		}
		if !metav1.IsControlledBy(job, r.cj) || r.active(job) {
			return nil
		}
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return err
	case err != nil:
		r.event(corev1.EventTypeWarning, "FailedCreate", "Error creating job: %v", err)
		return err
	default:
		r.event(corev1.EventTypeNormal, "SuccessfulCreate", "Created job %v", job.Name)
	}
	r.cj.Status.Active = append(r.cj.Status.Active, events.About(jobKind().GroupVersionKind, job))
	r.cj.Status.LastScheduleTime = &metav1.Time{Time: at}
	r.changed = true
	return nil
}

// nameOf returns the name of the job that is due at a time.
func nameOf(cj *batchv1.CronJob, at time.Time) string {
	return fmt.Sprintf("%s-%d", cj.Name, at.Unix()/60)
}

// jobFor returns the job that is due at a time. The CronJob's time zone is a known one.
func jobFor(cj *batchv1.CronJob, at time.Time) *batchv1.Job {
	zone := time.UTC
	if name := cj.Spec.TimeZone; name != nil {
		if known, err := time.LoadLocation(*name); err == nil {
			zone = known
		}
	}
	template := cj.Spec.JobTemplate.DeepCopy()
	annotations := map[string]string{}
	maps.Copy(annotations, template.Annotations)
	annotations[batchv1.CronJobScheduledTimestampAnnotation] = at.In(zone).Format(time.RFC3339)
	return &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: cj.Namespace, Name: nameOf(cj, at), Labels: template.Labels, Annotations: annotations,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(cj, kind().GroupVersionKind)},
		},
		Spec: template.Spec,
	}
}
