package ttlafterfinished_test

import (
	"context"
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

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/client/faults"
	"github.com/keelson-dev/keelson/controllers"
	"github.com/keelson-dev/keelson/controllers/controllerstest"
	"github.com/keelson-dev/keelson/controllers/internal/trial"
	"github.com/keelson-dev/keelson/controllers/ttlafterfinished"
	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/informer/lag"
	"github.com/keelson-dev/keelson/lifecycle"
)

var jobs = batchv1.SchemeGroupVersion.WithResource("jobs")

type bench struct {
	*testing.T
	api    *controllerstest.API
	source *lag.Source[*batchv1.Job]
	log    trial.Text
}

func inBubble(t *testing.T, before func(b *bench, r faults.Request) error, test func(b *bench)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := &bench{T: t}
		b.api = controllerstest.Start(t, controllerstest.Options{Before: func(r faults.Request) error {
			if before == nil {
				return nil
			}
			return before(b, r)
		}})
		b.source = controllerstest.Source[*batchv1.Job](b.api, jobs)
		in := informer.New(b.source, informer.Options{DetectMutations: func(err error) { t.Error(err) }})
		o := controllers.Options{Logger: slog.New(slog.NewTextHandler(&b.log, nil))}
		controllerstest.Go(t, in, controllers.NewLoop(ttlafterfinished.New(in, b.api), o))
		synctest.Wait()
		test(b)
	})
}

func at(name string) client.Target { return client.Target{Resource: jobs, Namespace: "ns", Name: name} }

// job returns one that ends now, by the given conditions, and lives for that many seconds.
func job(name string, seconds int32, conditions ...batchv1.JobConditionType) *batchv1.Job {
	j := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "ns"}}
	if seconds >= 0 {
		j.Spec.TTLSecondsAfterFinished = &seconds
	}
	now := metav1.Now()
	j.Status.StartTime = &now
	for _, c := range conditions {
		j.Status.Conditions = append(j.Status.Conditions, batchv1.JobCondition{Type: c, Status: "True", LastTransitionTime: now})
		if c == batchv1.JobComplete {
			j.Status.CompletionTime = &now
		}
	}
	return j
}

func (b *bench) add(j *batchv1.Job) {
	b.Helper()
	controllerstest.Add(b, b.api, j)
	synctest.Wait()
}

// there returns the names of the jobs that are not being deleted.
func (b *bench) there(after time.Duration) string {
	b.Helper()
	time.Sleep(after)
	synctest.Wait()
	list, err := client.As[*batchv1.JobList](b.api.Others.List(b.Context(), at(""), metav1.ListOptions{}))
	if err != nil {
		b.Fatal(err)
	}
	var names []string
	for _, j := range list.Items {
		if j.DeletionTimestamp == nil {
			names = append(names, j.Name)
		}
	}
	return strings.Join(names, " ")
}

func (b *bench) want(after time.Duration, want string) {
	b.Helper()
	if got := b.there(after); got != want {
		b.Errorf("there are %q, want %q", got, want)
	}
}

const (
	complete   = batchv1.JobComplete
	succeeding = batchv1.JobSuccessCriteriaMet
	failed     = batchv1.JobFailed
	failing    = batchv1.JobFailureTarget
)

// TestExpires: jobs that have ended are deleted after their time to live, and others stay.
func TestExpires(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		time.Sleep(time.Second - time.Duration(time.Now().Nanosecond())) // conditions are in whole seconds
		b.add(job("at-once", 0, succeeding, complete))
		b.add(job("completed", 10, succeeding, complete))
		b.add(job("failed", 20, failing, failed))
		b.add(job("failing", 1, failing))
		b.add(job("runs", 0))
		b.add(job("stays", -1, succeeding, complete))
		b.want(0, "completed failed failing runs stays")
		b.want(9*time.Second, "completed failed failing runs stays")
		b.want(time.Second, "failed failing runs stays")
		b.want(9*time.Second, "failed failing runs stays")
		b.want(time.Second, "failing runs stays")
		b.want(24*time.Hour, "failing runs stays")
		deletion, err := client.As[*batchv1.Job](b.api.Others.Get(b.Context(), at("failed")))
		if err != nil || fmt.Sprint(deletion.Finalizers) != "[foregroundDeletion]" {
			t.Errorf("deleted with %v: %v", deletion, err)
		}
	})
}

// TestChanged: the time to live that counts is that of the server.
func TestChanged(t *testing.T) {
	live := func(b *bench, seconds *int32) {
		got, err := client.As[*batchv1.Job](b.api.Others.Get(b.Context(), at("a")))
		if err != nil {
			b.Fatal(err)
		}
		got = got.DeepCopy()
		got.Spec.TTLSecondsAfterFinished = seconds
		if _, err := b.api.Others.Update(b.Context(), at("a"), got, metav1.UpdateOptions{}); err != nil {
			b.Fatal(err)
		}
		synctest.Wait()
	}
	inBubble(t, nil, func(b *bench) {
		b.add(job("a", 10, failing, failed))
		b.source.Hold()
		live(b, new(int32(30)))
		b.want(15*time.Second, "a")
		b.source.Resume()
		live(b, new(int32(20)))
		b.want(3*time.Second, "a")
		b.want(3*time.Second, "")
	})
	inBubble(t, nil, func(b *bench) {
		b.add(job("a", 10, failing, failed))
		b.source.Hold()
		live(b, nil)
		b.want(time.Minute, "a")
		b.source.Resume()
		live(b, new(int32(0)))
		b.want(0, "")
	})
}

// TestAnother: a job is not deleted for another that had its name.
func TestAnother(t *testing.T) {
	inBubble(t, func(b *bench, r faults.Request) error {
		if r.Verb != faults.Delete {
			return nil
		}
		if err := b.api.Others.Delete(b.Context(), at("a"), metav1.DeleteOptions{PropagationPolicy: new(metav1.DeletePropagationBackground)}); err != nil {
			return err
		}
		return b.api.Add(b.Context(), controllerstest.Complete(job("a", 100)))
	}, func(b *bench) {
		b.add(job("a", 0, failing, failed))
		b.want(time.Hour, "a")
		if !strings.Contains(b.log.String(), "UID in precondition") && !strings.Contains(b.log.String(), "the UID in the precondition") {
			t.Errorf("log %s", b.log.String())
		}
	})
}

// TestFailures: what fails is done again, and what is gone is no failure.
func TestFailures(t *testing.T) {
	for _, verb := range []string{faults.Get, faults.Delete} {
		tries := 0
		inBubble(t, func(_ *bench, r faults.Request) error {
			if r.Verb == verb {
				if tries++; tries < 3 {
					return errors.New("down")
				}
			}
			return nil
		}, func(b *bench) {
			b.add(job("a", 0, failing, failed))
			b.want(time.Minute, "")
			if n := strings.Count(b.log.String(), "error=down"); n != 2 {
				t.Errorf("%s: %d failures in %s", verb, n, b.log.String())
			}
		})
	}
	inBubble(t, func(_ *bench, r faults.Request) error {
		return apierrors.NewNotFound(jobs.GroupResource(), r.Target.Name)
	}, func(b *bench) {
		b.add(job("a", 0, failing, failed))
		if got := b.log.String(); got != "" {
			t.Error(got)
		}
	})
	inBubble(t, nil, func(b *bench) {
		j := job("a", 0, failing, failed)
		j.Status.Conditions[1].LastTransitionTime = metav1.Time{}
		b.add(j)
		b.want(time.Minute, "a")
		if !strings.Contains(b.log.String(), "unable to find the time when the Job ns/a finished") {
			t.Errorf("log %s", b.log.String())
		}
	})
	inBubble(t, nil, func(b *bench) {
		b.add(job("a", 10, failing, failed))
		b.source.Hold()
		timeless := job("a", 10, failing, failed)
		timeless.Status.Conditions[1].LastTransitionTime = metav1.Time{}
		of := at("a")
		of.Subresource = "status"
		stored, err := client.As[*batchv1.Job](b.api.Others.Get(b.Context(), at("a")))
		if err != nil {
			b.Fatal(err)
		}
		stored = stored.DeepCopy()
		stored.Status.Conditions = timeless.Status.Conditions
		if _, err := b.api.Others.Update(b.Context(), of, stored, metav1.UpdateOptions{}); err != nil {
			b.Fatal(err)
		}
		b.want(time.Minute, "a")
		if !strings.Contains(b.log.String(), "unable to find the time when the Job ns/a finished") {
			t.Errorf("log of what the server has: %s", b.log.String())
		}
		b.source.Resume()
	})
}

// TestNothingToDo: what is no work is not enqueued, and nothing is asked if it becomes so before it is its turn.
func TestNothingToDo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := controllerstest.Start(t, controllerstest.Options{})
		leaves := job("leaves", 0, failing, failed)
		leaves.Finalizers = []string{"example.com/hold"}
		controllerstest.Add(t, api, leaves)
		if err := api.Others.Delete(t.Context(), at("leaves"), metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		controllerstest.Add(t, api, job("runs", 0))
		odd := controllerstest.Complete(job("odd", 0, complete))
		odd.Status.Conditions[0].Status = corev1.ConditionFalse
		in := informer.New[*batchv1.Job](trial.Stored[*batchv1.Job]{Source: controllerstest.Source[*batchv1.Job](api, jobs), Objects: []*batchv1.Job{odd}}, informer.Options{})
		c := ttlafterfinished.New(in, api)
		var q trial.Queue
		c.Watch(&q)
		controllerstest.Go(t, in)
		synctest.Wait()
		if got := q.Take(); got != "" {
			t.Errorf("queued %q", got)
		}
		for _, name := range []string{"leaves", "runs", "odd", "gone"} {
			result, err := c.Reconcile(t.Context(), controllers.Key{Namespace: "ns", Name: name})
			if result != (controllers.Result{}) || err != nil || len(api.Requests()) > 0 {
				t.Errorf("%s: %+v, %v; %v", name, result, err, api.Requests())
			}
		}
	})
}

// The controller deletes a job as soon as it has ended, if its time to live is 0.
func Example() {
	api, err := controllerstest.New(controllerstest.Options{Objects: []informer.Object{
		controllerstest.Complete(job("done", 0, succeeding, complete)),
	}})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, stop := context.WithCancel(context.Background())
	in := informer.New(controllerstest.Source[*batchv1.Job](api, jobs), informer.Options{})
	in.AddHandler(informer.Handler[*batchv1.Job]{Updated: func(_, j *batchv1.Job) {
		if j.DeletionTimestamp != nil {
			fmt.Println(j.Name, "is being deleted")
			stop()
		}
	}})
	loop := controllers.NewLoop(ttlafterfinished.New(in, api), controllers.Options{})

	fmt.Println(lifecycle.Group(api, in, loop).Run(ctx))
	// Output:
	// done is being deleted
	// <nil>
}
