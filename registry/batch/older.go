package batch

import (
	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/api/batch/v1beta1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/keelson-dev/keelson/registry"
)

// olderCronJobs returns the version that servers stored until 1.20.
func olderCronJobs() []registry.Older {
	return []registry.Older{{
		GroupVersion: v1beta1.SchemeGroupVersion,
		New:          func() runtime.Object { return &v1beta1.CronJob{} },
		ToStored:     func(obj runtime.Object) registry.Object { return cronJobFromV1beta1(obj.(*v1beta1.CronJob)) },
	}}
}

func cronJobFromV1beta1(old *v1beta1.CronJob) *batchv1.CronJob {
	spec := old.Spec
	return &batchv1.CronJob{
		ObjectMeta: old.ObjectMeta,
		Spec: batchv1.CronJobSpec{
			Schedule: spec.Schedule, TimeZone: spec.TimeZone, StartingDeadlineSeconds: spec.StartingDeadlineSeconds,
			ConcurrencyPolicy: batchv1.ConcurrencyPolicy(spec.ConcurrencyPolicy), Suspend: spec.Suspend,
			JobTemplate:                batchv1.JobTemplateSpec(spec.JobTemplate),
			SuccessfulJobsHistoryLimit: spec.SuccessfulJobsHistoryLimit, FailedJobsHistoryLimit: spec.FailedJobsHistoryLimit,
		},
		Status: batchv1.CronJobStatus(old.Status),
	}
}
