package batch_test

import (
	"context"
	"fmt"
	"maps"
	"math"
	"reflect"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/api/batch/v1beta1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/registry/batch"
	"github.com/keelson-dev/keelson/registry/registrytest"
)

func TestKinds(t *testing.T) {
	registrytest.Kinds(t, batch.Kinds())
	for _, k := range batch.Kinds() {
		if !k.Namespaced || k.Rules.CreateOnUpdate || k.Rules.ConditionalUpdate {
			t.Errorf("%s: namespaced %t, %+v", k.Plural, k.Namespaced, k.Rules)
		}
	}
}

func jobs(t *testing.T) registry.Kind { return registrytest.Find(t, batch.Kinds(), "jobs") }

func cronJobs(t *testing.T) registry.Kind { return registrytest.Find(t, batch.Kinds(), "cronjobs") }

func template() corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{Spec: corev1.PodSpec{
		RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "c", Image: "work:1"}},
	}}
}

func newJob() *batchv1.Job {
	return &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: "work", Namespace: "ns", UID: "1234"},
		Spec:       batchv1.JobSpec{Template: template()},
	}
}

// storedJob is one with a selector.
func storedJob(t *testing.T) *batchv1.Job {
	j := newJob()
	registrytest.Prepare(jobs(t), j)
	return j
}

// indexed makes a job an indexed one of three completions.
func indexed(j *batchv1.Job) *batchv1.Job {
	j.Spec.CompletionMode = new(batchv1.IndexedCompletion)
	j.Spec.Completions, j.Spec.Parallelism = new(int32(3)), new(int32(3))
	return j
}

func newCronJob() *batchv1.CronJob {
	return &batchv1.CronJob{
		ObjectMeta: metav1.ObjectMeta{Name: "often", Namespace: "ns", Generation: 3},
		Spec: batchv1.CronJobSpec{
			Schedule: "*/5 * * * *", JobTemplate: batchv1.JobTemplateSpec{Spec: batchv1.JobSpec{Template: template()}},
		},
	}
}

func TestJobDefaults(t *testing.T) {
	for name, c := range map[string]struct {
		spec batchv1.JobSpec
		want string // completions, parallelism, back-off limit, replacement policy
	}{
		"none":           {batchv1.JobSpec{}, "1 1 6 TerminatingOrFailed"},
		"completions":    {batchv1.JobSpec{Completions: new(int32(4))}, "4 1 6 TerminatingOrFailed"},
		"parallelism":    {batchv1.JobSpec{Parallelism: new(int32(4))}, "-1 4 6 TerminatingOrFailed"},
		"per index":      {batchv1.JobSpec{BackoffLimitPerIndex: new(int32(1))}, fmt.Sprintf("1 1 %d TerminatingOrFailed", math.MaxInt32)},
		"failure policy": {batchv1.JobSpec{PodFailurePolicy: &batchv1.PodFailurePolicy{}}, "1 1 6 Failed"},
		"as set": {batchv1.JobSpec{
			BackoffLimit: new(int32(0)), BackoffLimitPerIndex: new(int32(1)), PodReplacementPolicy: new(batchv1.Failed),
		}, "1 1 0 Failed"},
	} {
		j := &batchv1.Job{Spec: c.spec}
		jobs(t).Rules.Default(j)
		completions := int32(-1)
		if j.Spec.Completions != nil {
			completions = *j.Spec.Completions
		}
		if got := fmt.Sprint(completions, " ", *j.Spec.Parallelism, " ", *j.Spec.BackoffLimit, " ", *j.Spec.PodReplacementPolicy); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
		if *j.Spec.CompletionMode != batchv1.NonIndexedCompletion || *j.Spec.Suspend || *j.Spec.ManualSelector ||
			j.Spec.Template.Spec.RestartPolicy != corev1.RestartPolicyAlways {
			t.Errorf("%s: %+v", name, j.Spec)
		}
	}
}

// TestJobLabels: a job without labels gets those of its pods.
func TestJobLabels(t *testing.T) {
	for name, c := range map[string]struct{ has, want string }{"none": {"", "pods"}, "its own": {"own", "own"}} {
		j := &batchv1.Job{}
		j.Spec.Template.Labels = map[string]string{"l": "pods"}
		if c.has != "" {
			j.Labels = map[string]string{"l": c.has}
		}
		jobs(t).Rules.Default(j)
		if j.Labels["l"] != c.want {
			t.Errorf("%s: %v", name, j.Labels)
		}
	}
}

// TestPhase: what tables show of a job.
func TestPhase(t *testing.T) {
	for want, list := range map[string][]batchv1.JobConditionType{
		"Running": nil, "Complete": {succeeding, complete}, "Failed": {failing, failed}, "Suspended": {suspended}, "FailureTarget": {failing},
		"SuccessCriteriaMet": {succeeding},
	} {
		j := newJob()
		jobs(t).Rules.Default(j)
		j.Status.Conditions = conditions(list...)
		if got := jobs(t).Columns.Cells(j, time.Now())[1]; got != want {
			t.Errorf("%v is shown as %v, want %s", list, got, want)
		}
	}
}

// TestCells: what tables show of the progress of a job, and of a cron job.
func TestCells(t *testing.T) {
	now := time.Unix(100_000, 0)
	for name, tt := range map[string]struct {
		completions, parallelism *int32
		start, end               *metav1.Time
		want                     string
	}{
		"nothing":              {nil, nil, nil, nil, "3/1 "},
		"completions":          {new(int32(5)), new(int32(2)), new(metav1.NewTime(now.Add(-time.Hour))), nil, "3/5 60m"},
		"one at a time":        {nil, new(int32(1)), new(metav1.NewTime(now.Add(-time.Hour))), new(metav1.NewTime(now.Add(-time.Minute))), "3/1 59m"},
		"two at a time":        {nil, new(int32(2)), nil, nil, "3/1 of 2 "},
		"complete, not begun?": {nil, nil, nil, new(metav1.NewTime(now)), "3/1 "},
	} {
		j := newJob()
		j.Spec.Completions, j.Spec.Parallelism = tt.completions, tt.parallelism
		j.Status = batchv1.JobStatus{Succeeded: 3, StartTime: tt.start, CompletionTime: tt.end}
		cells := jobs(t).Columns.Cells(j, now)
		if got := fmt.Sprint(cells[2], " ", cells[3]); got != tt.want {
			t.Errorf("%s: %s, want %s", name, got, tt.want)
		}
	}
	c := newCronJob()
	c.Spec.TimeZone, c.Spec.Suspend, c.Status = nil, nil, batchv1.CronJobStatus{}
	if got := fmt.Sprint(cronJobs(t).Columns.Cells(c, now)[2:6]); got != "[<none> <unset> 0 <none>]" {
		t.Error(got)
	}
	c.Spec.TimeZone, c.Spec.Suspend = new("Etc/UTC"), new(true)
	c.Status = batchv1.CronJobStatus{Active: make([]corev1.ObjectReference, 2), LastScheduleTime: new(metav1.NewTime(now.Add(-time.Hour)))}
	if got := fmt.Sprint(cronJobs(t).Columns.Cells(c, now)[2:6]); got != "[Etc/UTC True 2 60m]" {
		t.Error(got)
	}
}

func patterns(status corev1.ConditionStatus) *batchv1.PodFailurePolicy {
	return &batchv1.PodFailurePolicy{Rules: []batchv1.PodFailurePolicyRule{{
		Action:          batchv1.PodFailurePolicyActionIgnore,
		OnPodConditions: []batchv1.PodFailurePolicyOnPodConditionsPattern{{Type: corev1.DisruptionTarget, Status: status}},
	}}}
}

func TestPatternDefaults(t *testing.T) {
	j, c := newJob(), newCronJob()
	j.Spec.PodFailurePolicy, c.Spec.JobTemplate.Spec.PodFailurePolicy = patterns(""), patterns("")
	jobs(t).Rules.Default(j)
	cronJobs(t).Rules.Default(c)
	if want := patterns("True"); !reflect.DeepEqual(j.Spec.PodFailurePolicy, want) || !reflect.DeepEqual(c.Spec.JobTemplate.Spec.PodFailurePolicy, want) {
		t.Errorf("defaulted to %+v and %+v", j.Spec.PodFailurePolicy, c.Spec.JobTemplate.Spec.PodFailurePolicy)
	}
}

func TestCronJobDefaults(t *testing.T) {
	c := newCronJob()
	c.Status.Active = []corev1.ObjectReference{{Name: "x"}}
	registrytest.Prepare(cronJobs(t), c)
	s := c.Spec
	if s.ConcurrencyPolicy != batchv1.AllowConcurrent || *s.Suspend || *s.SuccessfulJobsHistoryLimit != 3 || *s.FailedJobsHistoryLimit != 1 ||
		s.JobTemplate.Spec.Template.Spec.SchedulerName != corev1.DefaultSchedulerName {
		t.Errorf("%+v", s)
	}
	if s.JobTemplate.Spec.Completions != nil || s.JobTemplate.Spec.Suspend != nil {
		t.Errorf("the template got defaults of jobs: %+v", s.JobTemplate.Spec)
	}
	if c.Generation != 1 || c.Status.Active != nil {
		t.Errorf("created with generation %d, status %+v", c.Generation, c.Status)
	}
}

// TestSelector: pods are labelled with the job's name and UID, and selected by the UID.
func TestSelector(t *testing.T) {
	generated := map[string]string{
		"controller-uid": "1234", "job-name": "work", "batch.kubernetes.io/controller-uid": "1234", "batch.kubernetes.io/job-name": "work",
	}
	with := func(more map[string]string) map[string]string {
		all := maps.Clone(generated)
		maps.Copy(all, more)
		return all
	}
	own := map[string]string{"app": "x"}
	for name, c := range map[string]struct {
		to             func(j *batchv1.Job)
		pods, job, sel map[string]string
	}{
		"nothing set": {func(*batchv1.Job) {}, generated, generated, map[string]string{"batch.kubernetes.io/controller-uid": "1234"}},
		"labelled pods": {func(j *batchv1.Job) { j.Spec.Template.Labels = maps.Clone(own) },
			with(own), with(own), map[string]string{"batch.kubernetes.io/controller-uid": "1234"}},
		"labelled job": {func(j *batchv1.Job) { j.Labels = maps.Clone(own) },
			generated, own, map[string]string{"batch.kubernetes.io/controller-uid": "1234"}},
		"labels in conflict": {func(j *batchv1.Job) { j.Spec.Template.Labels = map[string]string{"job-name": "y"} },
			with(map[string]string{"job-name": "y"}), with(map[string]string{"job-name": "y"}), map[string]string{"batch.kubernetes.io/controller-uid": "1234"}},
		"selector in conflict": {func(j *batchv1.Job) {
			j.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"batch.kubernetes.io/controller-uid": "y"}}
		}, generated, generated, map[string]string{"batch.kubernetes.io/controller-uid": "y"}},
		"manual": {func(j *batchv1.Job) {
			j.Spec.ManualSelector, j.Spec.Template.Labels = new(true), maps.Clone(own)
			j.Spec.Selector = &metav1.LabelSelector{MatchLabels: own}
		}, own, own, own},
	} {
		j := newJob()
		c.to(j)
		registrytest.Prepare(jobs(t), j)
		if !maps.Equal(j.Spec.Template.Labels, c.pods) || !maps.Equal(j.Labels, c.job) || !maps.Equal(j.Spec.Selector.MatchLabels, c.sel) {
			t.Errorf("%s: pods %v, job %v, selector %v", name, j.Spec.Template.Labels, j.Labels, j.Spec.Selector)
		}
		j.Labels["other"] = ""
		if _, shared := j.Spec.Template.Labels["other"]; shared {
			t.Errorf("%s: the labels of pods are those of the job", name)
		}
	}
}

func TestGenerations(t *testing.T) {
	j := newJob()
	j.Spec.Scheduling, j.Status.Active = &batchv1.JobSchedulingConfiguration{}, 4
	registrytest.Prepare(jobs(t), j)
	if j.Generation != 1 || j.Status.Active != 0 || j.Spec.Scheduling != nil {
		t.Errorf("created as %+v", j)
	}
	for name, c := range map[string]struct {
		to   func(j *batchv1.Job)
		want int64
	}{
		"status":     {func(j *batchv1.Job) { j.Status.Active = 1 }, 1},
		"labels":     {func(j *batchv1.Job) { j.Labels = map[string]string{"a": "b"} }, 1},
		"spec":       {func(j *batchv1.Job) { j.Spec.Parallelism = new(int32(2)) }, 2},
		"scheduling": {func(j *batchv1.Job) { j.Spec.Scheduling = &batchv1.JobSchedulingConfiguration{} }, 1},
	} {
		next := j.DeepCopy()
		c.to(next)
		if errs := registrytest.Replace(jobs(t), "", next, j); len(errs) > 0 || next.Generation != c.want || next.Status.Active != 0 || next.Spec.Scheduling != nil {
			t.Errorf("%s: generation %d, status %+v: %v", name, next.Generation, next.Status, errs)
		}
	}
	next := j.DeepCopy()
	next.Spec.Parallelism, next.Status.Active = new(int32(7)), 1
	if errs := registrytest.Replace(jobs(t), "status", next, j); len(errs) > 0 || *next.Spec.Parallelism != 1 || next.Status.Active != 1 {
		t.Errorf("the view of the status wrote %+v: %v", next, errs)
	}
	old := j.DeepCopy()
	old.Spec.Scheduling = &batchv1.JobSchedulingConfiguration{}
	next = old.DeepCopy()
	if errs := registrytest.Replace(jobs(t), "", next, old); len(errs) > 0 || next.Spec.Scheduling == nil {
		t.Errorf("what is stored goes: %v", errs)
	}
	next.Spec.Scheduling = nil
	if errs := registrytest.Replace(jobs(t), "", next, old); len(errs) != 1 || errs[0].Error() != "spec.scheduling: Forbidden" {
		t.Errorf("scheduling goes: %v", errs)
	}
}

func TestCronJobGenerations(t *testing.T) {
	c := newCronJob()
	registrytest.Prepare(cronJobs(t), c)
	next := c.DeepCopy()
	next.Status.Active, next.Spec.JobTemplate.Spec.Scheduling = []corev1.ObjectReference{{Name: "x"}}, &batchv1.JobSchedulingConfiguration{}
	if errs := registrytest.Replace(cronJobs(t), "", next, c); len(errs) > 0 || !reflect.DeepEqual(next, c) {
		t.Errorf("updated to %+v: %v", next, errs)
	}
	next.Spec.Schedule = "@daily"
	if errs := registrytest.Replace(cronJobs(t), "", next, c); len(errs) > 0 || next.Generation != 2 {
		t.Errorf("generation %d: %v", next.Generation, errs)
	}
	next.Status.Active, next.Spec.Schedule = []corev1.ObjectReference{{Name: "x"}}, "@hourly"
	if registrytest.Replace(cronJobs(t), "status", next, c); next.Spec.Schedule != c.Spec.Schedule || len(next.Status.Active) != 1 {
		t.Errorf("the view of the status wrote %+v", next)
	}
}

func TestFields(t *testing.T) {
	k := jobs(t)
	if got := k.Fields(&batchv1.Job{Status: batchv1.JobStatus{Succeeded: 3}}); got.String() != "status.successful=3" {
		t.Errorf("selectable by %v", got)
	}
	if !k.Rules.Deletion.Orphans || k.Rules.Deletion.OrphansWarning == "" || cronJobs(t).Rules.Deletion.Orphans {
		t.Error("deletes of jobs preserve pods, those of CronJobs no jobs")
	}
}

func TestOlderCronJobs(t *testing.T) {
	older := cronJobs(t).Older
	if len(older) != 1 || older[0].GroupVersion != v1beta1.SchemeGroupVersion {
		t.Fatalf("older versions: %+v", older)
	}
	want := newCronJob()
	want.Spec.TimeZone, want.Spec.StartingDeadlineSeconds, want.Spec.Suspend = new("UTC"), new(int64(5)), new(true)
	want.Spec.ConcurrencyPolicy, want.Spec.FailedJobsHistoryLimit, want.Spec.SuccessfulJobsHistoryLimit = "Forbid", new(int32(7)), new(int32(8))
	want.Spec.JobTemplate.Labels = map[string]string{"a": "b"}
	want.Status = batchv1.CronJobStatus{Active: []corev1.ObjectReference{{Name: "x"}}, LastScheduleTime: new(metav1.Unix(1, 0)), LastSuccessfulTime: new(metav1.Unix(2, 0))}
	old := older[0].New().(*v1beta1.CronJob)
	old.ObjectMeta, old.Status = want.ObjectMeta, v1beta1.CronJobStatus(want.Status)
	old.Spec = v1beta1.CronJobSpec{
		Schedule: "*/5 * * * *", TimeZone: new("UTC"), StartingDeadlineSeconds: new(int64(5)), Suspend: new(true), ConcurrencyPolicy: "Forbid",
		FailedJobsHistoryLimit: new(int32(7)), SuccessfulJobsHistoryLimit: new(int32(8)), JobTemplate: v1beta1.JobTemplateSpec(want.Spec.JobTemplate),
	}
	if got := older[0].ToStored(old); !reflect.DeepEqual(got, want) {
		t.Errorf("converted to %+v", got)
	}
}

func TestWarnings(t *testing.T) {
	const name = "metadata.name: this is used in Pod names and hostnames, which can result in surprising behavior; a DNS label is recommended: [must not contain dots]"
	const large = ": In Indexed Jobs with a number of completions higher than 10^5 and a parallelism higher than 10^4, Kubernetes might not be able to track completedIndexes when a big number of indexes fail"
	const zone = "cannot use TZ or CRON_TZ in spec.spec.schedule, use timeZone instead, see https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details"
	ofJob := func(name string, completions, parallelism int32, generation int64) *batchv1.Job {
		j := indexed(newJob())
		j.Name, j.Spec.Completions, j.Spec.Parallelism, j.Generation = name, &completions, &parallelism, generation
		return j
	}
	ofCronJob := func(j *batchv1.Job, schedule string) *batchv1.CronJob {
		c := newCronJob()
		c.Name, c.Generation, c.Spec.Schedule, c.Spec.JobTemplate.Spec = j.Name, j.Generation, schedule, j.Spec
		return c
	}
	big, bigger, dotted := ofJob("a", 100_001, 10_001, 1), ofJob("a", 100_001, 10_001, 2), ofJob("a.b", 100_001, 10_001, 1)
	endless := ofJob("a", 0, 10_001, 1)
	endless.Spec.Completions = nil
	for what, c := range map[string]struct {
		k        registry.Kind
		obj, old registry.Object
		want     []string
	}{
		"job":               {jobs(t), dotted, nil, []string{name, "spec" + large}},
		"fewer":             {jobs(t), ofJob("a", 100_000, 10_001, 1), nil, nil},
		"of no number":      {jobs(t), endless, nil, nil},
		"one by one":        {jobs(t), ofJob("a", 100_001, 10_000, 1), nil, nil},
		"changed job":       {jobs(t), bigger, big, []string{"spec" + large}},
		"same spec":         {jobs(t), dotted, dotted, nil},
		"CronJob":           {cronJobs(t), ofCronJob(dotted, "@daily"), nil, []string{name, "spec.jobTemplate.spec" + large}},
		"changed CronJob":   {cronJobs(t), ofCronJob(bigger, "TZ=UTC @daily"), ofCronJob(big, ""), []string{"spec.jobTemplate.spec" + large, zone}},
		"zone in same spec": {cronJobs(t), ofCronJob(big, "TZ=UTC @daily"), ofCronJob(big, ""), []string{zone}},
	} {
		var got []string
		ctx := registry.WithWarnings(context.Background(), func(text string) { got = append(got, text) })
		if err := c.k.Rules.Guard(ctx, c.obj, c.old); err != nil || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %v, warned of %q", what, err, got)
		}
	}
}

func ExampleKinds() {
	for _, k := range batch.Kinds() {
		fmt.Println(k.GroupVersion, k.Plural, k.Short, k.Categories)
	}
	// Output:
	// batch/v1 cronjobs [cj] [all]
	// batch/v1 jobs [] [all]
}
