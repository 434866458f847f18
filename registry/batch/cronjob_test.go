package batch_test

import (
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/registry/registrytest"
)

type cronChange = registrytest.Change[*batchv1.CronJob]

func zone(name string) func(*batchv1.CronJob) {
	return func(c *batchv1.CronJob) { c.Spec.TimeZone = &name }
}

func schedule(text string) func(*batchv1.CronJob) {
	return func(c *batchv1.CronJob) { c.Spec.Schedule = text }
}

func TestCronJob(t *testing.T) {
	const unknown = "spec.timeZone: Invalid value: %: unknown time zone "
	changes := []cronChange{
		{Name: "an alias", To: schedule("@weekly")},
		{Name: "an interval", To: schedule("@every 1h")},
		{Name: "no schedule", To: schedule(""), Refused: []string{"spec.schedule: Required value"}},
		{Name: "too short", To: schedule("* * *"), Refused: []string{
			`spec.schedule: Invalid value: "* * *": expected exactly 5 fields, found 3: [* * *]`}},
		{Name: "out of range", To: schedule("61 * * * *"), Refused: []string{
			`spec.schedule: Invalid value: "61 * * * *": end of range (61) above maximum (59): 61`}},
		{Name: "zone in the schedule", To: schedule("TZ=UTC 0 * * * *"), Refused: []string{
			`spec.schedule: Invalid value: "TZ=UTC 0 * * * *": cannot use TZ or CRON_TZ in schedule, use timeZone field instead`}},
		{Name: "nothing but a zone", To: schedule("TZ=0"), Refused: []string{
			`spec.schedule: Invalid value: "TZ=0": invalid schedule format: runtime error: slice bounds out of range [:-1]`,
			`spec.schedule: Invalid value: "TZ=0": cannot use TZ or CRON_TZ in schedule, use timeZone field instead`}},
		{Name: "a zone", To: zone("America/Argentina/Rio_Gallegos")},
		{Name: "an offset", To: zone("Etc/GMT+5")},
		{Name: "the largest digit", To: zone("Etc/GMT+9")},
		{Name: "the longest part", To: zone("Antarctica/DumontDUrville")},
		{Name: "no zone", To: zone(""), Refused: []string{`spec.timeZone: Invalid value: "": timeZone must be nil or non-empty string`}},
		{Name: "no part of a name", To: zone(`\UTC`), Refused: []string{`spec.timeZone: Invalid value: "\\UTC": unknown time zone \UTC`}},
		{Name: "here", To: zone("LOCAL"), Refused: []string{
			`spec.timeZone: Invalid value: "LOCAL": timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones`,
			`spec.timeZone: Invalid value: "LOCAL": unknown time zone LOCAL`}},
		{Name: "no character of a name", To: zone("Etc/\x00"), Refused: []string{`spec.timeZone: Invalid value: "Etc/\u0000": unknown time zone Etc/` + "\x00"}},
		{Name: "unknown", To: zone("Nowhere"), Refused: []string{`spec.timeZone: Invalid value: "Nowhere": unknown time zone Nowhere`}},
		{Name: "policy", To: func(c *batchv1.CronJob) { c.Spec.ConcurrencyPolicy = "Some" }, Refused: []string{
			`spec.concurrencyPolicy: Unsupported value: "Some": supported values: "Allow", "Forbid", "Replace"`}},
		{Name: "negative", To: func(c *batchv1.CronJob) {
			c.Spec.StartingDeadlineSeconds, c.Spec.SuccessfulJobsHistoryLimit, c.Spec.FailedJobsHistoryLimit = new(int64(-1)), new(int32(-2)), new(int32(-3))
			c.Spec.JobTemplate.Spec.Parallelism = new(int32(-4))
		}, Refused: []string{
			"spec.startingDeadlineSeconds: Invalid value: -1" + nonnegative,
			"spec.jobTemplate.spec.parallelism: Invalid value: -4" + nonnegative,
			"spec.successfulJobsHistoryLimit: Invalid value: -2" + nonnegative,
			"spec.failedJobsHistoryLimit: Invalid value: -3" + nonnegative}},
		{Name: "template", To: func(c *batchv1.CronJob) {
			j := &c.Spec.JobTemplate.Spec
			j.Selector, j.ManualSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}, new(true)
			j.Template.Spec.RestartPolicy = corev1.RestartPolicyAlways
		}, Refused: []string{
			`spec.jobTemplate.spec.template.spec.restartPolicy: Required value: valid values: "OnFailure", "Never"`,
			"spec.jobTemplate.spec.selector: Invalid value: {\"matchLabels\":{\"a\":\"b\"}}: `selector` will be auto-generated",
			`spec.jobTemplate.spec.manualSelector: Unsupported value: true: supported values: "nil", "false"`}},
	}
	for _, name := range []string{"/UTC", "UTC/", "Etc//UTC", "./UTC", "../UTC", "-x", "Etc/Much_Too_Long_", "Ä", "a b"} {
		changes = append(changes, cronChange{Name: "zone " + name, To: zone(name), Refused: []string{strings.Replace(unknown, "%", `"`+name+`"`, 1) + name}})
	}
	long, tooLong := strings.Repeat("a", 52), strings.Repeat("a", 53)
	registrytest.Create(t, cronJobs(t), newCronJob(), append(changes, []cronChange{
		{Name: "long name", To: func(c *batchv1.CronJob) { c.Name = long }},
		{Name: "too long a name", To: func(c *batchv1.CronJob) { c.Name = tooLong }, Refused: []string{
			`metadata.name: Invalid value: "` + tooLong + `": must be no more than 52 characters`}},
	}...))
	registrytest.Update(t, cronJobs(t), "", newCronJob(), append(changes,
		cronChange{Name: "old name", To: func(c *batchv1.CronJob) { c.Name = tooLong }}))
}

// What was accepted once stays.
func TestOldStays(t *testing.T) {
	old := newCronJob()
	old.Spec.Schedule = "TZ=UTC 0 * * * *"
	registrytest.Update(t, cronJobs(t), "", old, []cronChange{
		{Name: "still in the schedule", To: schedule("CRON_TZ=Asia/Tokyo 0 * * * *")},
		{Name: "in both", To: zone("UTC"), Refused: []string{
			`spec.schedule: Invalid value: "TZ=UTC 0 * * * *": cannot use both timeZone field and TZ or CRON_TZ in schedule`}},
	})
	old.Spec.Schedule, old.Spec.TimeZone = "0 * * * *", new("Gone/Zone")
	registrytest.Update(t, cronJobs(t), "", old, []cronChange{
		{Name: "another zone", To: zone("Gone/Too"), Refused: []string{`spec.timeZone: Invalid value: "Gone/Too": unknown time zone Gone/Too`}},
	})
	costly := newCronJob()
	costly.Spec.JobTemplate.Spec.Template.Annotations = map[string]string{corev1.PodDeletionCost: "x"}
	registrytest.Update(t, cronJobs(t), "", costly, []cronChange{
		{Name: "an old annotation", To: schedule("@daily")},
	})
	withScheduling := newCronJob()
	withScheduling.Spec.JobTemplate.Spec.Scheduling = &batchv1.JobSchedulingConfiguration{}
	registrytest.Update(t, cronJobs(t), "", withScheduling, []cronChange{
		{Name: "scheduling goes", To: func(c *batchv1.CronJob) { c.Spec.JobTemplate.Spec.Scheduling = nil }, Refused: []string{
			"spec.jobTemplate.spec.scheduling: Forbidden"}},
	})
}
