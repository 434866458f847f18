package batch

import (
	"fmt"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/keelson-dev/keelson/registry"
)

func jobColumns() registry.Columns[*batchv1.Job] {
	return registry.Columns[*batchv1.Job]{
		Definitions: append([]metav1.TableColumnDefinition{
			registry.NameColumn(),
			registry.TextColumn("Status", "Status of the job."),
			registry.TextColumn("Completions", batchv1.JobStatus{}.SwaggerDoc()["succeeded"]),
			registry.TextColumn("Duration", "Time required to complete the job."),
			registry.AgeColumn(),
		}, templateColumns()...),
		Cells: func(j *batchv1.Job, now time.Time) []any {
			names, images := containers(j.Spec.Template.Spec.Containers)
			return []any{
				j.Name, phase(j), completions(j), took(&j.Status, now), registry.Age(j.CreationTimestamp, now),
				names, images, metav1.FormatLabelSelector(j.Spec.Selector),
			}
		},
	}
}

func cronJobColumns() registry.Columns[*batchv1.CronJob] {
	spec, status := batchv1.CronJobSpec{}.SwaggerDoc(), batchv1.CronJobStatus{}.SwaggerDoc()
	return registry.Columns[*batchv1.CronJob]{
		Definitions: append([]metav1.TableColumnDefinition{
			registry.NameColumn(),
			registry.TextColumn("Schedule", spec["schedule"]),
			registry.TextColumn("Timezone", spec["timeZone"]),
			{Name: "Suspend", Type: "boolean", Description: spec["suspend"]},
			{Name: "Active", Type: "integer", Description: status["active"]},
			registry.TextColumn("Last Schedule", status["lastScheduleTime"]),
			registry.AgeColumn(),
		}, templateColumns()...),
		Cells: func(c *batchv1.CronJob, now time.Time) []any {
			zone, suspended, last := "<none>", "<unset>", "<none>"
			if c.Spec.TimeZone != nil {
				zone = *c.Spec.TimeZone
			}
			if c.Spec.Suspend != nil {
				suspended = map[bool]string{true: "True", false: "False"}[*c.Spec.Suspend]
			}
			if c.Status.LastScheduleTime != nil {
				last = registry.Age(*c.Status.LastScheduleTime, now)
			}
			job := &c.Spec.JobTemplate.Spec
			names, images := containers(job.Template.Spec.Containers)
			return []any{
				c.Name, c.Spec.Schedule, zone, suspended, int64(len(c.Status.Active)), last, registry.Age(c.CreationTimestamp, now),
				names, images, metav1.FormatLabelSelector(job.Selector),
			}
		},
	}
}

func templateColumns() []metav1.TableColumnDefinition {
	return []metav1.TableColumnDefinition{
		registry.WideColumn("Containers", "Names of each container in the template."),
		registry.WideColumn("Images", "Images referenced by each container in the template."),
		registry.WideColumn("Selector", batchv1.JobSpec{}.SwaggerDoc()["selector"]),
	}
}

func containers(list []corev1.Container) (names, images string) {
	n, i := make([]string, len(list)), make([]string, len(list))
	for at := range list {
		n[at], i[at] = list[at].Name, list[at].Image
	}
	return strings.Join(n, ","), strings.Join(i, ",")
}

func completions(j *batchv1.Job) string {
	if j.Spec.Completions != nil {
		return fmt.Sprintf("%d/%d", j.Status.Succeeded, *j.Spec.Completions)
	}
	if j.Spec.Parallelism != nil && *j.Spec.Parallelism > 1 {
		return fmt.Sprintf("%d/1 of %d", j.Status.Succeeded, *j.Spec.Parallelism)
	}
	return fmt.Sprintf("%d/1", j.Status.Succeeded)
}

// took is how long a job has been running, or ran if it is complete.
func took(s *batchv1.JobStatus, now time.Time) string {
	switch {
	case s.StartTime == nil:
		return ""
	case s.CompletionTime == nil:
		return duration.HumanDuration(now.Sub(s.StartTime.Time))
	}
	return duration.HumanDuration(s.CompletionTime.Sub(s.StartTime.Time))
}

func phase(j *batchv1.Job) string {
	first := map[batchv1.JobConditionType]corev1.ConditionStatus{}
	for _, c := range j.Status.Conditions {
		if _, seen := first[c.Type]; !seen {
			first[c.Type] = c.Status
		}
	}
	switch is := func(t batchv1.JobConditionType) bool { return first[t] == corev1.ConditionTrue }; {
	case is(batchv1.JobComplete):
		return "Complete"
	case is(batchv1.JobFailed):
		return "Failed"
	case j.DeletionTimestamp != nil:
		return "Terminating"
	case is(batchv1.JobSuspended):
		return "Suspended"
	case is(batchv1.JobFailureTarget):
		return "FailureTarget"
	case is(batchv1.JobSuccessCriteriaMet):
		return "SuccessCriteriaMet"
	}
	return "Running"
}
