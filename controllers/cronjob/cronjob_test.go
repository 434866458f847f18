package cronjob_test

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/controllers"
	"github.com/keelson-dev/keelson/controllers/controllerstest"
	"github.com/keelson-dev/keelson/controllers/cronjob"
	"github.com/keelson-dev/keelson/controllers/internal/trial"
	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/informer/lag"
)

var (
	cronJobs = batchv1.SchemeGroupVersion.WithResource("cronjobs")
	jobs     = batchv1.SchemeGroupVersion.WithResource("jobs")
)

// bench is an API and a controller at 00:00 on 2000-01-01, a Saturday.
type bench struct {
	*testing.T
	api      *controllerstest.API
	events   controllerstest.Recorder
	cronFeed *lag.Source[*batchv1.CronJob]
	jobFeed  *lag.Source[*batchv1.Job]
	stored   []*batchv1.CronJob // under older rules
	// Of the controller: what it asks, if not the API itself, and where failures are logged.
	client     *trial.Client
	log        *slog.Logger
	controller *cronjob.Controller
}

func (b *bench) start(t *testing.T) cronjob.Sources {
	b.T, b.api = t, controllerstest.Start(t, controllerstest.Options{})
	b.cronFeed, b.jobFeed = controllerstest.Source[*batchv1.CronJob](b.api, cronJobs), controllerstest.Source[*batchv1.Job](b.api, jobs)
	detect := informer.Options{DetectMutations: func(err error) { t.Error(err) }}
	return cronjob.Sources{
		CronJobs: informer.New(trial.Stored[*batchv1.CronJob]{Source: b.cronFeed, Objects: b.stored}, detect),
		Jobs:     informer.New(b.jobFeed, detect),
	}
}

// run runs test against a controller; before, if not nil, makes what is there when it starts.
func (b *bench) run(t *testing.T, before, test func(*bench)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		in := b.start(t)
		var asked cronjob.Client = b.api
		if b.client != nil {
			b.client.Client = b.api
			asked = b.client
		}
		if before != nil {
			before(b)
		}
		b.controller = cronjob.New(in, asked, &b.events)
		controllerstest.Go(t, in.CronJobs, in.Jobs, controllers.NewLoop(b.controller, controllers.Options{Logger: b.log}))
		synctest.Wait()
		test(b)
	})
}

func inBubble(t *testing.T, test func(*bench)) {
	t.Helper()
	new(bench).run(t, nil, test)
}

// target addresses an object in the namespace of the tests.
func target(resource schema.GroupVersionResource, name string) client.Target {
	return client.Target{Resource: resource, Namespace: "ns", Name: name}
}

func (b *bench) put(objects ...informer.Object) {
	b.Helper()
	for _, obj := range objects {
		controllerstest.Add(b, b.api, obj)
	}
	synctest.Wait()
}

// change changes what is at a target, as another user.
func change[T runtime.Object](b *bench, at client.Target, change func(T)) {
	b.Helper()
	main := at
	main.Subresource = ""
	obj, err := client.As[T](b.api.Others.Get(b.Context(), main))
	if err != nil {
		b.Fatal(err)
	}
	obj = obj.DeepCopyObject().(T)
	change(obj)
	if _, err := b.api.Others.Update(b.Context(), at, obj, metav1.UpdateOptions{}); err != nil {
		b.Fatal(err)
	}
	synctest.Wait()
}

func (b *bench) remove(at client.Target) {
	b.Helper()
	background := metav1.DeletePropagationBackground
	if err := b.api.Others.Delete(b.Context(), at, metav1.DeleteOptions{PropagationPolicy: &background}); err != nil {
		b.Fatal(err)
	}
	synctest.Wait()
}

// until sleeps until a time of the day of the first of January or, with a date before it, of that.
func (b *bench) until(clock string) {
	b.Helper()
	if len(clock) <= len("15:04:05") {
		clock = "2000-01-01 " + clock
	}
	when, err := time.Parse(time.DateTime, clock)
	if err != nil {
		b.Fatal(err)
	}
	time.Sleep(time.Until(when))
	synctest.Wait()
}

// job is the name of the CronJob's job that is due at a time of the first of January.
func (b *bench) job(clock string) string {
	b.Helper()
	when, err := time.Parse(time.DateTime, "2000-01-01 "+clock+":00")
	if err != nil {
		b.Fatal(err)
	}
	return fmt.Sprintf("cj-%d", when.Unix()/60)
}

// finish ends a job.
func (b *bench) finish(name string, how batchv1.JobConditionType) {
	b.Helper()
	t := target(jobs, name)
	t.Subresource = "status"
	change(b, t, func(job *batchv1.Job) {
		now := metav1.Now()
		add := func(kind batchv1.JobConditionType) {
			job.Status.Conditions = append(job.Status.Conditions, batchv1.JobCondition{Type: kind, Status: corev1.ConditionTrue, LastTransitionTime: now})
		}
		job.Status.StartTime = &job.CreationTimestamp
		if how == batchv1.JobComplete {
			add(batchv1.JobSuccessCriteriaMet)
			job.Status.CompletionTime, job.Status.Succeeded = &now, 1
		} else {
			add(batchv1.JobFailureTarget)
		}
		add(how)
	})
}

func (b *bench) cronJob() *batchv1.CronJob {
	b.Helper()
	cj, err := client.As[*batchv1.CronJob](b.api.Others.Get(b.Context(), target(cronJobs, "cj")))
	if err != nil {
		b.Fatal(err)
	}
	return cj
}

// wantJobs compares the existing jobs.
func (b *bench) wantJobs(what string, want ...string) {
	b.Helper()
	list, err := client.As[*batchv1.JobList](b.api.Others.List(b.Context(), target(jobs, ""), metav1.ListOptions{}))
	if err != nil {
		b.Fatal(err)
	}
	var got []string
	for _, job := range list.Items {
		got = append(got, job.Name)
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		b.Errorf("%s: jobs %q, want %q", what, got, want)
	}
}

// wantActive compares the active jobs in the status.
func (b *bench) wantActive(what string, want ...string) {
	b.Helper()
	var got []string
	for _, ref := range b.cronJob().Status.Active {
		got = append(got, ref.Name)
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		b.Errorf("%s: active %q, want %q", what, got, want)
	}
}

// wantEvents compares the events since the last time, without repetitions.
func (b *bench) wantEvents(what string, want ...string) {
	b.Helper()
	got := b.events.Take()
	slices.Sort(got)
	slices.Sort(want)
	if got = slices.Compact(got); !slices.Equal(got, want) {
		b.Errorf("%s: events\n%s\nwant\n%s", what, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func created(job string) string { return "Normal SuccessfulCreate Created job " + job }
func deleted(job string) string { return "Normal SuccessfulDelete Deleted job " + job }
func done(job, condition string) string {
	return "Normal SawCompletedJob Saw completed job: " + job + ", condition: " + condition
}

// cron is a CronJob in UTC.
func cron(schedule string, changes ...func(*batchv1.CronJobSpec)) *batchv1.CronJob {
	zone := "Etc/UTC"
	cj := &batchv1.CronJob{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "cj"},
		Spec: batchv1.CronJobSpec{Schedule: schedule, TimeZone: &zone, JobTemplate: batchv1.JobTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"l": "v"}, Annotations: map[string]string{"a": "v"}},
			Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
				RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "main", Image: "image"}},
			}}},
		}},
	}
	for _, change := range changes {
		change(&cj.Spec)
	}
	return cj
}

func policy(p batchv1.ConcurrencyPolicy) func(*batchv1.CronJobSpec) {
	return func(s *batchv1.CronJobSpec) { s.ConcurrencyPolicy = p }
}

func deadline(seconds int64) func(*batchv1.CronJobSpec) {
	return func(s *batchv1.CronJobSpec) { s.StartingDeadlineSeconds = &seconds }
}

func suspended(yes bool) func(*batchv1.CronJobSpec) {
	return func(s *batchv1.CronJobSpec) { s.Suspend = &yes }
}

func TestStartsJobs(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.put(cron("30 * * * *"))
		b.until("00:30:00")
		b.wantJobs("when it is due")
		b.until("00:30:01")
		one := b.job("00:30")
		b.wantJobs("a moment later", one)
		b.wantActive("a moment later", one)
		b.wantEvents("a moment later", created(one))
		job, err := client.As[*batchv1.Job](b.api.Others.Get(b.Context(), target(jobs, one)))
		if err != nil {
			b.Fatal(err)
		}
		cj := b.cronJob()
		if ref := metav1.GetControllerOf(job); ref == nil || ref.Kind != "CronJob" || ref.APIVersion != "batch/v1" || ref.UID != cj.UID || !*ref.BlockOwnerDeletion {
			b.Errorf("owner %v", ref)
		}
		if job.Labels["l"] != "v" || job.Annotations["a"] != "v" || job.Annotations["batch.kubernetes.io/cronjob-scheduled-timestamp"] != "2000-01-01T00:30:00Z" {
			b.Errorf("job %+v", job.ObjectMeta)
		}
		if job.Spec.Template.Spec.Containers[0].Image != "image" {
			b.Errorf("template %+v", job.Spec.Template)
		}
		want := corev1.ObjectReference{Kind: "Job", APIVersion: "batch/v1", Namespace: "ns", Name: one, UID: job.UID, ResourceVersion: job.ResourceVersion}
		if got := cj.Status.Active[0]; got != want {
			b.Errorf("active %+v, want %+v", got, want)
		}
		if got := cj.Status.LastScheduleTime; got == nil || !got.Equal(&metav1.Time{Time: time.Date(2000, 1, 1, 0, 30, 0, 0, time.UTC)}) {
			b.Errorf("last start %v", got)
		}
		b.until("00:40:00")
		b.finish(one, batchv1.JobComplete)
		b.wantActive("when it is done")
		b.wantEvents("when it is done", done(one, "Complete"))
		if got := b.cronJob().Status.LastSuccessfulTime; got == nil || !got.Equal(&metav1.Time{Time: time.Date(2000, 1, 1, 0, 40, 0, 0, time.UTC)}) {
			b.Errorf("last success %v", got)
		}
		b.until("01:31:00")
		two := b.job("01:30")
		b.finish(two, batchv1.JobFailed)
		b.wantJobs("in the end", one, two)
		b.wantActive("in the end")
		b.wantEvents("in the end", created(two), done(two, "Failed"))
		if got := b.cronJob().Status.LastSuccessfulTime; got.Minute() != 40 {
			b.Errorf("last success %v", got)
		}
	})
}

// TestMonth: a month of a daily job, with three jobs kept.
func TestMonth(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.put(cron("15 6 * * *"))
		var all, events []string
		for day := 1; day <= 31; day++ {
			due := time.Date(2000, 1, day, 6, 15, 0, 0, time.UTC)
			time.Sleep(time.Until(due.Add(time.Minute)))
			synctest.Wait()
			name := fmt.Sprintf("cj-%d", due.Unix()/60)
			all = append(all, name)
			b.wantActive(due.String(), name)
			b.finish(name, batchv1.JobComplete)
			b.wantActive(due.String())
			events = append(events, created(name), done(name, "Complete"))
			if day > 3 {
				events = append(events, deleted(all[day-4]))
			}
		}
		b.wantJobs("at the end", all[28:]...)
		b.wantEvents("in a month", events...)
		b.until("2000-02-01 00:00:00")
		if got := b.cronJob().Status.LastSuccessfulTime; !got.Equal(&metav1.Time{Time: time.Date(2000, 1, 31, 6, 16, 0, 0, time.UTC)}) {
			b.Errorf("last success %v", got)
		}
	})
}

// TestConcurrency: what becomes of a job that is still active when the next is due.
func TestConcurrency(t *testing.T) {
	for p, tt := range map[batchv1.ConcurrencyPolicy]struct {
		jobs, events func(one, two string) []string
	}{
		batchv1.AllowConcurrent: {
			func(one, two string) []string { return []string{one, two} },
			func(one, two string) []string { return []string{created(one), created(two)} },
		},
		batchv1.ForbidConcurrent: {
			func(one, _ string) []string { return []string{one} },
			func(one, _ string) []string {
				return []string{created(one), "Normal JobAlreadyActive Not starting job because prior execution is running and concurrency policy is Forbid"}
			},
		},
		batchv1.ReplaceConcurrent: {
			func(_, two string) []string { return []string{two} },
			func(one, two string) []string { return []string{created(one), deleted(one), created(two)} },
		},
	} {
		t.Run(string(p), func(t *testing.T) {
			inBubble(t, func(b *bench) {
				b.put(cron("*/10 * * * *", policy(p)))
				b.until("00:20:01")
				one, two := b.job("00:10"), b.job("00:20")
				b.wantJobs("both are due", tt.jobs(one, two)...)
				b.wantActive("both are due", tt.jobs(one, two)...)
				b.wantEvents("both are due", tt.events(one, two)...)
				if p != batchv1.ForbidConcurrent {
					return
				}
				b.until("00:25:00")
				b.finish(one, batchv1.JobFailed) // what was not started is made up for
				b.wantJobs("the first has ended", one, two)
				b.wantActive("the first has ended", two)
			})
		})
	}
}

// TestMissedStarts: what was due while nobody looked.
func TestMissedStarts(t *testing.T) {
	for name, tt := range map[string]struct {
		cj     *batchv1.CronJob
		starts string // when the controller does
		due    string // the job that is made up for
		events []string
	}{
		"one":          {cron("0 * * * *"), "01:20:00", "01:00", nil},
		"some":         {cron("0 * * * *"), "05:20:00", "05:00", nil},
		"not too many": {cron("* * * * *"), "01:40:30", "01:40", nil},
		"one more":     {cron("* * * * *"), "01:41:30", "01:41", []string{"Warning TooManyMissedTimes too many missed start times. Set or decrease .spec.startingDeadlineSeconds or check clock skew"}},
		"too many":     {cron("* * * * *"), "05:00:30", "05:00", []string{"Warning TooManyMissedTimes too many missed start times. Set or decrease .spec.startingDeadlineSeconds or check clock skew"}},
		"in time":      {cron("0 * * * *", deadline(30*60)), "05:20:00", "05:00", nil},
		"few in time":  {cron("* * * * *", deadline(60*60)), "05:00:30", "05:00", nil},
		"none in time": {cron("0 * * * *", deadline(600)), "05:20:00", "", nil},
		"suspended":    {cron("0 * * * *", suspended(true)), "05:20:00", "", nil},
	} {
		t.Run(name, func(t *testing.T) {
			new(bench).run(t, func(b *bench) {
				b.put(tt.cj)
				b.until(tt.starts)
			}, func(b *bench) {
				var want []string
				if tt.due != "" {
					want = append(want, b.job(tt.due))
					tt.events = append(tt.events, created(want[0]))
				}
				b.wantJobs("at the start", want...)
				b.wantEvents("at the start", tt.events...)
			})
		})
	}
}

// TestResumed: of what was due while it was suspended, the last start is made up for.
func TestResumed(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.put(cron("0 * * * *", suspended(true)))
		b.until("05:20:00")
		b.wantJobs("suspended")
		change(b, target(cronJobs, "cj"), func(cj *batchv1.CronJob) { *cj.Spec.Suspend = false })
		five := b.job("05:00")
		b.wantJobs("resumed", five)
		b.until("06:00:01")
		b.wantJobs("and goes on", five, b.job("06:00"))
		change(b, target(cronJobs, "cj"), func(cj *batchv1.CronJob) { *cj.Spec.Suspend = true })
		b.until("09:00:01")
		b.wantJobs("suspended again", five, b.job("06:00"))
		b.finish(five, batchv1.JobComplete)
		b.wantActive("what runs is seen to", b.job("06:00"))
	})
}

// TestChangedSchedule: the next start follows the new schedule.
func TestChangedSchedule(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.put(cron("0 * * * *"))
		b.until("00:10:00")
		change(b, target(cronJobs, "cj"), func(cj *batchv1.CronJob) { cj.Spec.Schedule = "15 * * * *" })
		b.until("00:15:01")
		b.wantJobs("sooner", b.job("00:15"))
		change(b, target(cronJobs, "cj"), func(cj *batchv1.CronJob) { cj.Spec.Schedule = "45 * * * *" })
		b.until("01:30:00")
		b.wantJobs("later", b.job("00:15"), b.job("00:45"))
		zone := "Asia/Kolkata" // half an hour off
		change(b, target(cronJobs, "cj"), func(cj *batchv1.CronJob) { cj.Spec.TimeZone = &zone })
		b.until("02:20:00")
		b.wantJobs("elsewhere", b.job("00:15"), b.job("00:45"), b.job("01:15"), b.job("02:15"))
		job, err := client.As[*batchv1.Job](b.api.Others.Get(b.Context(), target(jobs, b.job("02:15"))))
		if err != nil {
			b.Fatal(err)
		}
		if got := job.Annotations["batch.kubernetes.io/cronjob-scheduled-timestamp"]; got != "2000-01-01T07:45:00+05:30" {
			b.Errorf("scheduled at %s", got)
		}
	})
}

// TestHistory: how many finished jobs are kept.
func TestHistory(t *testing.T) {
	for name, tt := range map[string]struct {
		succeeded, failed int32
		want              []string
	}{
		"some":    {2, 1, []string{"00:20", "00:40", "00:50"}},
		"none":    {0, 0, nil},
		"many":    {9, 9, []string{"00:10", "00:20", "00:30", "00:40", "00:50"}},
		"failed":  {0, 5, []string{"00:30", "00:50"}},
		"success": {1, 0, []string{"00:40"}},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(b *bench) {
				b.put(cron("*/10 * * * *", func(s *batchv1.CronJobSpec) {
					s.SuccessfulJobsHistoryLimit, s.FailedJobsHistoryLimit = &tt.succeeded, &tt.failed
				}))
				var events []string
				for _, run := range []struct {
					clock string
					how   batchv1.JobConditionType
				}{{"00:10", "Complete"}, {"00:20", "Complete"}, {"00:30", "Failed"}, {"00:40", "Complete"}, {"00:50", "Failed"}} {
					b.until(run.clock + ":01")
					b.finish(b.job(run.clock), run.how)
					// One that is not kept at all is deleted before it is seen to be done.
					kept := tt.succeeded > 0 && run.how == "Complete" || tt.failed > 0 && run.how == "Failed"
					events = append(events, created(b.job(run.clock)))
					if kept {
						events = append(events, done(b.job(run.clock), string(run.how)))
					}
					if !slices.Contains(tt.want, run.clock) {
						events = append(events, deleted(b.job(run.clock)))
					}
				}
				var want []string
				for _, clock := range tt.want {
					want = append(want, b.job(clock))
				}
				b.wantJobs("in the end", want...)
				b.wantActive("in the end")
				b.wantEvents("in the end", events...)
			})
		})
	}
}
