package cronjob_test

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/client/faults"
	"github.com/keelson-dev/keelson/controllers"
	"github.com/keelson-dev/keelson/controllers/controllerstest"
	"github.com/keelson-dev/keelson/controllers/cronjob"
	"github.com/keelson-dev/keelson/controllers/internal/trial"
)

// stepper is a controller without a loop: the test says when it looks at its CronJob.
type stepper struct {
	*bench
	controller controllers.Controller
	next       string // when to look again
}

func byHand(t *testing.T, test func(*stepper)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := &bench{}
		in := b.start(t)
		c := cronjob.New(in, b.api, &b.events)
		c.Watch(&trial.Queue{})
		controllerstest.Go(t, in.CronJobs, in.Jobs)
		test(&stepper{bench: b, controller: c})
	})
}

// step has the CronJob looked at, and compares the error, or "", and the requests.
func (s *stepper) step(message string, want ...string) {
	s.Helper()
	synctest.Wait()
	s.api.Reset()
	result, err := s.controller.Reconcile(s.Context(), controllers.Key{Namespace: "ns", Name: "cj"})
	s.next = result.RequeueAfter.String()
	if fmt.Sprint(err) != cmp.Or(message, "<nil>") {
		s.Errorf("error %v, want %q", err, message)
	}
	var got []string
	for _, r := range s.api.Requests() {
		got = append(got, r.String())
	}
	if !slices.Equal(got, want) {
		s.Errorf("requests %q, want %q", got, want)
	}
	synctest.Wait()
}

func (s *stepper) down(verb, resource string) {
	s.api.Inject(faults.Fault{Verb: verb, Resource: resource, Err: errors.New("down")})
}

const (
	read   = "get cronjobs ns/cj"
	status = "update cronjobs/status ns/cj"
)

// TestSteps: which requests it takes to start jobs and to see them end, and none when there is nothing to do.
func TestSteps(t *testing.T) {
	byHand(t, func(s *stepper) {
		s.step("")
		s.put(cron("*/10 * * * *"))
		s.step("")
		if s.next != "10m0.1s" {
			s.Errorf("looks again in %s", s.next)
		}
		s.until("00:10:00")
		one := s.job("00:10")
		s.down(faults.Create, "jobs")
		s.step("down", "create jobs ns/"+one)
		s.down(faults.Update, "cronjobs/status")
		s.step("update the status of CronJob ns/cj: down", "create jobs ns/"+one, status)
		s.down(faults.Get, "jobs")
		s.step("down", read, "create jobs ns/"+one, "get jobs ns/"+one)
		s.step("", read, "create jobs ns/"+one, "get jobs ns/"+one, status)
		s.step("")
		s.finish(one, batchv1.JobComplete)
		s.step("", status)
		s.step("")
		s.until("00:20:00")
		two := s.job("00:20")
		s.step("", "create jobs ns/"+two, status)
		at := target(cronJobs, "cj")
		at.Subresource = "status"
		change(s.bench, at, func(cj *batchv1.CronJob) { cj.Status.LastScheduleTime = nil }) // though it is active
		s.step("")
		none := int32(0)
		change(s.bench, target(cronJobs, "cj"), func(cj *batchv1.CronJob) { cj.Spec.SuccessfulJobsHistoryLimit = &none })
		s.step("", "delete jobs ns/"+one)
		s.step("")
		change(s.bench, target(jobs, two), func(j *batchv1.Job) { j.OwnerReferences = nil })
		s.step("", "get jobs ns/"+two) // it is not missing
		s.remove(target(jobs, two))
		s.down(faults.Get, "jobs")
		s.step("down", "get jobs ns/"+two)
		s.step("", "get jobs ns/"+two, "create jobs ns/"+two, status)
		// What was found out is written even if the next job cannot be created.
		s.until("00:30:00")
		s.remove(target(jobs, two))
		s.down(faults.Create, "jobs")
		s.step("down", "get jobs ns/"+two, "create jobs ns/"+s.job("00:30"), status)
		// A namespace that is being deleted is no event.
		s.events.Take()
		going := apierrors.NewForbidden(batchv1.Resource("jobs"), "", errors.New("going"))
		going.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
		s.api.Inject(faults.Fault{Verb: faults.Create, Resource: "jobs", Err: going})
		s.step(going.Error(), "create jobs ns/"+s.job("00:30"))
		s.wantEvents("in a namespace that goes")
	})
}

// TestReplaceSteps: the active jobs are deleted one by one, before the next starts.
func TestReplaceSteps(t *testing.T) {
	byHand(t, func(s *stepper) {
		s.put(cron("*/10 * * * *", policy(batchv1.ReplaceConcurrent)))
		s.until("00:10:00")
		one, two := s.job("00:10"), s.job("00:20")
		s.step("", "create jobs ns/"+one, status)
		s.until("00:20:00")
		s.down(faults.Get, "jobs")
		s.step("down", "get jobs ns/"+one)
		s.down(faults.Delete, "jobs")
		s.step("could not replace job ns/"+one, "get jobs ns/"+one, "delete jobs ns/"+one)
		s.step("", "get jobs ns/"+one, "delete jobs ns/"+one, "create jobs ns/"+two, status)
		s.wantActive("in the end", two)
		s.step("")
	})
}

// TestSlowSteps: a CronJob older than the last write of its status is read anew.
func TestSlowSteps(t *testing.T) {
	byHand(t, func(s *stepper) {
		s.put(cron("*/10 * * * *"))
		s.until("00:10:00")
		s.cronFeed.Hold()
		s.step("", "create jobs ns/"+s.job("00:10"), status)
		s.step("", read)
		s.down(faults.Get, "cronjobs")
		s.step("down", read)
		s.remove(target(cronJobs, "cj"))
		s.step("", read)
		s.cronFeed.Resume()
		s.step("")
	})
}

// TestUnexpectedSteps: before a job is called unexpected, the CronJob is read.
func TestUnexpectedSteps(t *testing.T) {
	byHand(t, func(s *stepper) {
		s.put(cron("*/10 * * * *"))
		s.put(job("unexpected", s.cronJob()))
		s.down(faults.Get, "cronjobs")
		s.step("down", read)
		s.wantEvents("not read")
		s.step("", read)
		s.wantEvents("read", "Warning UnexpectedJob Saw a job that the controller did not create or forgot: unexpected")
		s.until("00:10:00")
		s.cronFeed.Hold()
		s.step("", read, "create jobs ns/"+s.job("00:10"), status)
		s.events.Take()
		s.remove(target(jobs, "unexpected"))
		s.step("", read) // the job is listed as active, then
		s.wantEvents("expected")
		s.cronFeed.Resume()
		change(s.bench, target(cronJobs, "cj"), func(cj *batchv1.CronJob) { cj.Labels = map[string]string{"l": "v"} })
		if err := s.api.Others.Delete(s.Context(), target(cronJobs, "cj"), metav1.DeleteOptions{}); err != nil {
			s.Fatal(err)
		}
		s.step("")
	})
}
