package cronjob_test

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/client/faults"
	"github.com/keelson-dev/keelson/controllers/controllerstest"
	"github.com/keelson-dev/keelson/controllers/cronjob"
	"github.com/keelson-dev/keelson/controllers/internal/trial"
	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/informer/memory"
)

// job is one by hand, of the CronJob if it is not nil.
func job(name string, of *batchv1.CronJob) *batchv1.Job {
	j := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}, Spec: *cron("").Spec.JobTemplate.Spec.DeepCopy()}
	if of != nil {
		j.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(of, batchv1.SchemeGroupVersion.WithKind("CronJob"))}
	}
	return j
}

// TestUnusable: what cannot be started is reported, and left alone until it changes.
func TestUnusable(t *testing.T) {
	nowhere := func(s *batchv1.CronJobSpec) {
		zone := "Nowhere/Land"
		s.TimeZone = &zone
	}
	local := func(s *batchv1.CronJobSpec) { s.TimeZone = nil }
	for name, tt := range map[string]struct {
		cj   *batchv1.CronJob
		want []string
	}{
		"zone":                     {cron("* * * * *", nowhere), []string{`Warning UnknownTimeZone invalid timeZone: "Nowhere/Land": unknown time zone Nowhere/Land`}},
		"zone, suspended":          {cron("* * * * *", nowhere, suspended(true)), []string{`Warning UnknownTimeZone invalid timeZone: "Nowhere/Land": unknown time zone Nowhere/Land`}},
		"schedule":                 {cron("* * * *"), []string{`Warning UnparseableSchedule unparseable schedule: "* * * *" : expected exactly 5 fields, found 4: [* * * *]`}},
		"schedule, suspended":      {cron("* * * *", suspended(true)), nil},
		"never":                    {cron("0 0 31 2 *"), []string{`Warning InvalidSchedule invalid schedule: 0 0 31 2 * : time difference between two schedules is less than 1 second`}},
		"a zone in the schedule":   {cron("TZ=UTC 0 0 1 3 *", local), []string{`Warning UnsupportedSchedule CRON_TZ or TZ used in schedule "TZ=UTC 0 0 1 3 *" is not officially supported, see https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details`}},
		"an unknown one":           {cron("CRON_TZ=Land * * * * *", local), []string{`Warning UnparseableSchedule unparseable schedule: "CRON_TZ=Land * * * * *" : provided bad location Land: unknown time zone Land`, `Warning UnsupportedSchedule CRON_TZ or TZ used in schedule "CRON_TZ=Land * * * * *" is not officially supported, see https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details`}},
		"one that ends in a panic": {cron("TZ=0", local), []string{`Warning UnparseableSchedule unparseable schedule: "TZ=0" : invalid schedule format: runtime error: slice bounds out of range [:-1]`, `Warning UnsupportedSchedule CRON_TZ or TZ used in schedule "TZ=0" is not officially supported, see https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details`}},
	} {
		t.Run(name, func(t *testing.T) {
			tt.cj.UID, tt.cj.ResourceVersion = "stored", "1"
			b := &bench{}
			b.stored = append(b.stored, tt.cj)
			b.run(t, func(b *bench) { tt.cj.CreationTimestamp = metav1.Now() }, func(b *bench) {
				time.Sleep(time.Hour)
				synctest.Wait()
				b.wantJobs("an hour later")
				b.wantEvents("an hour later", tt.want...)
			})
		})
	}
}

// TestDeadline: a start that is noticed too late is not made.
func TestDeadline(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.put(cron("0 * * * *", deadline(10)))
		b.api.Inject(faults.Fault{Resource: "jobs", Err: apierrors.NewInternalError(errors.New("no")), Times: -1})
		b.until("01:05:00")
		b.api.Heal()
		b.until("01:30:00")
		b.wantJobs("half an hour late")
		b.wantEvents("half an hour late", `Warning FailedCreate Error creating job: Internal error occurred: no`)
		b.until("02:00:01")
		b.wantJobs("the next", b.job("02:00"))
	})
}

// TestNoTime: a deadline that is over when the start is looked at.
func TestNoTime(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.put(cron("0 * * * *", deadline(0)))
		b.until("01:00:01")
		b.wantJobs("no time at all")
		b.wantEvents("no time at all")
	})
}

// TestDeleted: nothing is started for a CronJob that is being deleted, but its status is seen to.
func TestDeleted(t *testing.T) {
	inBubble(t, func(b *bench) {
		cj := cron("0 * * * *")
		cj.Finalizers = []string{"example.com/hold"}
		b.put(cj)
		b.until("01:00:01")
		one := b.job("01:00")
		b.remove(target(cronJobs, "cj"))
		b.finish(one, batchv1.JobComplete)
		b.until("03:00:00")
		b.wantJobs("in the end", one)
		b.wantActive("in the end")
		b.wantEvents("in the end", created(one), done(one, "Complete"))
	})
}

// TestForeignJobs: jobs that others make or delete are reported; none is adopted.
func TestForeignJobs(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.put(cron("0 * * * *"))
		b.put(job("orphan", nil))
		b.wantEvents("an orphan")
		b.put(job("unexpected", b.cronJob()))
		b.wantActive("one that says it is ours")
		b.wantEvents("one that says it is ours", "Warning UnexpectedJob Saw a job that the controller did not create or forgot: unexpected")
		b.finish("unexpected", batchv1.JobComplete)
		b.wantEvents("and ends")
		if got := b.cronJob().Status.LastSuccessfulTime; got == nil {
			b.Error("its success does not count")
		}
		b.until("01:00:01")
		one := b.job("01:00")
		b.wantActive("one of ours", one)
		b.wantEvents("one of ours", created(one))
		b.remove(target(jobs, one))
		b.wantActive("that somebody deletes")
		b.wantEvents("that somebody deletes", "Normal MissingJob Active job went missing: "+one)
		b.wantJobs("that somebody deletes", "orphan", "unexpected")

		// Somebody has taken the name.
		two := b.job("02:00")
		b.put(job(two, nil))
		b.until("02:30:00")
		b.wantActive("a name that is taken")
		b.wantEvents("a name that is taken")
		b.until("03:00:01")
		b.wantActive("the next", b.job("03:00"))
	})
}

// TestNotWritten: a job is made once, though the status could not be written.
func TestNotWritten(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.put(cron("0 * * * *"))
		b.api.Inject(faults.Fault{Resource: "cronjobs", Err: errors.New("no"), Times: 1})
		b.until("01:10:00")
		b.wantJobs("in the end", b.job("01:00"))
		b.wantActive("in the end", b.job("01:00"))
	})
}

// TestSlowCaches: what the caches do not show yet is neither done again nor reported.
func TestSlowCaches(t *testing.T) {
	for name, hold := range map[string]func(*bench){
		"jobs":     func(b *bench) { b.jobFeed.Hold() },
		"cronjobs": func(b *bench) { b.cronFeed.Hold() },
		"both":     func(b *bench) { b.jobFeed.Hold(); b.cronFeed.Hold() },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(b *bench) {
				none := int32(0)
				b.put(cron("*/10 * * * *", policy(batchv1.ReplaceConcurrent), func(s *batchv1.CronJobSpec) { s.FailedJobsHistoryLimit = &none }))
				b.until("00:10:05")
				hold(b)
				one, two, three := b.job("00:10"), b.job("00:20"), b.job("00:30")
				b.until("00:20:05")
				b.until("00:30:05")
				b.jobFeed.Resume()
				b.cronFeed.Resume()
				b.until("00:30:10")
				b.wantJobs("in the end", three)
				b.wantActive("in the end", three)
				b.wantEvents("in the end", created(one), deleted(one), created(two), deleted(two), created(three))
				b.jobFeed.Hold()
				b.finish(three, batchv1.JobFailed)
				b.jobFeed.Resume()
				synctest.Wait()
				b.wantJobs("in the end")
				b.wantEvents("in the end", deleted(three))
			})
		})
	}
}

// TestFailures: how failures are told. All but that of a deletion for the history are retried.
func TestFailures(t *testing.T) {
	terminating := apierrors.NewForbidden(jobs.GroupResource(), "", errors.New("going"))
	terminating.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
	forbidden := errors.New("no")
	for name, tt := range map[string]struct {
		policy batchv1.ConcurrencyPolicy
		fault  faults.Fault
		want   func(one, two string) []string // events
		jobs   func(one, two string) []string // in the end
	}{
		"create": {batchv1.AllowConcurrent, faults.Fault{Verb: faults.Create, Resource: "jobs", Err: forbidden, Times: 1},
			func(_, two string) []string {
				return []string{"Warning FailedCreate Error creating job: no", created(two)}
			},
			func(one, two string) []string { return []string{one, two} }},
		"create in a namespace that is being deleted": {batchv1.AllowConcurrent, faults.Fault{Verb: faults.Create, Resource: "jobs", Err: terminating, Times: -1},
			func(_, _ string) []string { return nil },
			func(one, _ string) []string { return []string{one} }},
		"get": {batchv1.ReplaceConcurrent, faults.Fault{Verb: faults.Get, Resource: "jobs", Err: forbidden, Times: 1},
			func(one, two string) []string {
				return []string{"Warning FailedGet Get job: no", deleted(one), created(two)}
			},
			func(_, two string) []string { return []string{two} }},
		"delete": {batchv1.ReplaceConcurrent, faults.Fault{Verb: faults.Delete, Resource: "jobs", Err: forbidden, Times: 1},
			func(one, two string) []string {
				return []string{"Warning FailedDelete Deleted job: no", deleted(one), created(two)}
			},
			func(_, two string) []string { return []string{two} }},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(b *bench) {
				b.put(cron("*/10 * * * *", policy(tt.policy)))
				b.until("00:11:00")
				b.events.Take()
				b.api.Inject(tt.fault)
				b.until("00:21:00")
				one, two := b.job("00:10"), b.job("00:20")
				b.wantEvents("in the end", tt.want(one, two)...)
				b.wantJobs("in the end", tt.jobs(one, two)...)
			})
		})
	}
	inBubble(t, func(b *bench) {
		none := int32(0)
		b.put(cron("*/10 * * * *", func(s *batchv1.CronJobSpec) { s.SuccessfulJobsHistoryLimit = &none }))
		b.until("00:11:00")
		one := b.job("00:10")
		b.events.Take()
		b.api.Inject(faults.Fault{Verb: faults.Delete, Resource: "jobs", Err: forbidden, Times: 1})
		b.finish(one, batchv1.JobComplete)
		b.until("00:21:00")
		b.wantEvents("in the end", done(one, "Complete"), "Warning FailedDelete Deleted job: no", deleted(one), created(b.job("00:20")))
		b.wantJobs("in the end", b.job("00:20"))
	})
}

// TestEveryFailure: whichever request fails, the failure is reported and made up for.
func TestEveryFailure(t *testing.T) {
	swallowed := func(request string) bool { return strings.HasPrefix(request, "delete ") } // of the history
	trial.EveryFailure(t, swallowed, func(c *trial.Client, log *slog.Logger) (state string) {
		(&bench{client: c, log: log}).run(t, nil, func(b *bench) {
			one := int32(1)
			b.put(cron("*/10 * * * *", policy(batchv1.ForbidConcurrent), func(s *batchv1.CronJobSpec) { s.SuccessfulJobsHistoryLimit = &one }))
			for _, clock := range []string{"00:10", "00:20", "00:30"} {
				b.until(clock + ":30")
				b.finish(b.job(clock), batchv1.JobComplete)
				b.until(clock + ":50")
			}
			b.until("00:40:30")
			b.remove(target(jobs, b.job("00:40")))
			b.until("00:55:00")
			b.wantJobs("in the end", b.job("00:30"), b.job("00:50"))
			b.wantActive("in the end", b.job("00:50"))
			state = fmt.Sprint(b.cronJob().Status.LastScheduleTime, b.cronJob().Status.LastSuccessfulTime)
		})
		return state
	})
}

// TestWatch: which CronJobs a change concerns.
func TestWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &bench{}
		in := b.start(t)
		var q trial.Queue
		cronjob.New(in, b.api, &b.events).Watch(&q)
		controllerstest.Go(t, in.CronJobs, in.Jobs)
		want := func(what, want string) {
			t.Helper()
			synctest.Wait()
			if got := q.Take(); got != want {
				t.Errorf("%s: %q, want %q", what, got, want)
			}
		}
		b.put(cron("0 * * * *"))
		want("a CronJob", "ns/cj")
		change(b, target(cronJobs, "cj"), func(cj *batchv1.CronJob) { cj.Labels = map[string]string{"l": "v"} })
		want("that changes", "ns/cj")
		change(b, target(cronJobs, "cj"), func(cj *batchv1.CronJob) { cj.Spec.Schedule = "30 * * * *" })
		want("its schedule", "ns/cj+30m0.1s")
		zone := "Asia/Kolkata"
		change(b, target(cronJobs, "cj"), func(cj *batchv1.CronJob) { cj.Spec.TimeZone = &zone })
		want("its time zone", "ns/cj+1h0m0.1s")
		change(b, target(cronJobs, "cj"), func(cj *batchv1.CronJob) { cj.Spec.TimeZone = nil; cj.Spec.Schedule = "@every 90m" })
		want("and no longer", "ns/cj+1h30m0.1s")
		change(b, target(cronJobs, "cj"), func(cj *batchv1.CronJob) { cj.Spec.TimeZone = &zone })
		want("a time zone", "ns/cj+1h30m0.1s")
		change(b, target(cronJobs, "cj"), func(cj *batchv1.CronJob) { cj.Spec.TimeZone = nil })
		want("none", "ns/cj+1h30m0.1s")
		change(b, target(cronJobs, "cj"), func(cj *batchv1.CronJob) { cj.Labels = nil })
		want("none, still", "ns/cj")
		b.put(job("orphan", nil))
		want("a job of nobody", "")
		b.put(job("ours", b.cronJob()))
		want("a job of ours", "ns/cj")
		b.finish("ours", batchv1.JobComplete)
		want("that ends", "ns/cj")
		b.remove(target(jobs, "ours"))
		want("and goes", "ns/cj")
		b.put(job("released", b.cronJob()))
		want("a job of ours", "ns/cj")
		change(b, target(jobs, "released"), func(j *batchv1.Job) { j.OwnerReferences = nil })
		want("that is released", "ns/cj")
		other := b.cronJob()
		other.UID = "other"
		b.put(job("stranger", other))
		want("a job of an older CronJob", "")
		b.remove(target(cronJobs, "cj"))
		want("a CronJob that goes", "ns/cj")
	})
}

// TestUnreadableUpdate: a new schedule that cannot be read, which the server would refuse today, changes nothing.
func TestUnreadableUpdate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New[*batchv1.CronJob]()
		in := cronjob.Sources{
			CronJobs: informer.New(store, informer.Options{}),
			Jobs:     informer.New(memory.New[*batchv1.Job](), informer.Options{}),
		}
		b := &bench{T: t}
		var q trial.Queue
		cronjob.New(in, nil, &b.events).Watch(&q)
		controllerstest.Go(t, in.CronJobs, in.Jobs)
		cj := cron("0 * * * *")
		store.Put(cj)
		synctest.Wait()
		q.Take()
		odd := cj.DeepCopy()
		odd.Spec.Schedule = "nonsense"
		store.Put(odd)
		synctest.Wait()
		if got := q.Take(); got != "" {
			t.Errorf("enqueued %q", got)
		}
		b.wantEvents("nonsense", "Warning UnParseableCronJobSchedule unparseable schedule for cronjob: nonsense")
	})
}
