package job_test

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

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/client/faults"
	"github.com/keelson-dev/keelson/controllers"
	"github.com/keelson-dev/keelson/controllers/controllerstest"
	"github.com/keelson-dev/keelson/controllers/internal/trial"
	"github.com/keelson-dev/keelson/controllers/job"
	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/informer/lag"
)

// bench is a controller and its API, in a bubble.
type bench struct {
	*testing.T
	api        *controllerstest.API
	controller *job.Controller
	jobs       *lag.Source[*batchv1.Job]
	pods       *lag.Source[*corev1.Pod]
	events     controllerstest.Recorder
	options    job.Options
	// before, when set, sees the controller's requests before they are carried out.
	before func(faults.Request) error
	// stored, when set, changes the jobs on their way to the controller into what validation does not let in today.
	stored func(*batchv1.Job)
	// Of the controller: what it asks, if not the API itself, and where failures are logged.
	client *trial.Client
	log    *slog.Logger
	uid    string // of the job
}

var jobs = batchv1.SchemeGroupVersion.WithResource("jobs")

// inBubble runs test against a running controller.
func inBubble(t *testing.T, test func(*bench)) {
	t.Helper()
	run(t, &bench{}, test)
}

func run(t *testing.T, b *bench, test func(*bench)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b.T = t
		b.api = controllerstest.Start(t, controllerstest.Options{Before: func(r faults.Request) error {
			if b.before == nil {
				return nil
			}
			return b.before(r)
		}})
		b.jobs, b.pods = controllerstest.Source[*batchv1.Job](b.api, jobs), controllerstest.Source[*corev1.Pod](b.api, controllerstest.Pods())
		var seen informer.Source[*batchv1.Job] = b.jobs
		if b.stored != nil {
			seen = informer.Transform(seen, func(j *batchv1.Job) (*batchv1.Job, error) {
				j = j.DeepCopy()
				b.stored(j)
				return j, nil
			}, nil)
		}
		strict := informer.Options{DetectMutations: func(err error) { t.Error(err) }}
		in := job.Sources{Jobs: informer.New(seen, strict), Pods: informer.New(b.pods, strict)}
		var asked job.Client = b.api
		if b.client != nil {
			b.client.Client = b.api
			asked = b.client
		}
		b.options.Parallel = 1
		b.controller = job.New(in, asked, &b.events, b.options)
		o := controllers.Options{Logger: b.log}
		controllerstest.Go(t, in.Jobs, in.Pods, controllers.NewLoop(b.controller, o), controllers.NewLoop(job.NewOrphans(in, asked), o))
		synctest.Wait()
		test(b)
	})
}

// after lets virtual time pass.
func (b *bench) after(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// settle lets the controller look at what has changed.
func (b *bench) settle() { b.after(2100 * time.Millisecond) }

// newJob is one of n completions, all at once.
func newJob(n int32) *batchv1.Job {
	return &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: "work", Namespace: "ns"},
		Spec:       batchv1.JobSpec{Completions: &n, Parallelism: &n},
	}
}

// indexedJob is newJob with indexes.
func indexedJob(n int32) *batchv1.Job {
	j := newJob(n)
	j.Spec.CompletionMode = new(batchv1.IndexedCompletion)
	return j
}

func at() client.Target { return client.Target{Resource: jobs, Namespace: "ns", Name: "work"} }

func podAt(name string) client.Target {
	return client.Target{Resource: controllerstest.Pods(), Namespace: "ns", Name: name}
}

func key() controllers.Key { return controllers.Key{Namespace: "ns", Name: "work"} }

// create adds an object and lets the controller see it.
func create[T informer.Object](b *bench, obj T) T {
	b.Helper()
	made := controllerstest.Add(b, b.api, obj)
	synctest.Wait()
	return made
}

// start creates the job.
func (b *bench) start(j *batchv1.Job) {
	b.Helper()
	b.uid = string(create(b, j).UID)
	b.after(time.Millisecond)
}

// update changes an object, as another than the controller, and lets the controller see it.
func update[T informer.Object](b *bench, t client.Target, change func(T)) {
	b.Helper()
	whole := t
	whole.Subresource = ""
	obj, err := client.As[T](b.api.Others.Get(b.Context(), whole))
	if err != nil {
		b.Fatal(err)
	}
	obj = obj.DeepCopyObject().(T)
	change(obj)
	if _, err := b.api.Others.Update(b.Context(), t, obj, metav1.UpdateOptions{}); err != nil {
		b.Fatal(err)
	}
	synctest.Wait()
}

// spec changes the job.
func (b *bench) spec(change func(*batchv1.JobSpec)) {
	b.Helper()
	update(b, at(), func(j *batchv1.Job) { change(&j.Spec) })
}

// remove deletes an object, as another than the controller, and lets the controller see it.
func (b *bench) remove(t client.Target, policy *metav1.DeletionPropagation) {
	b.Helper()
	if err := b.api.Others.Delete(b.Context(), t, metav1.DeleteOptions{PropagationPolicy: policy}); err != nil {
		b.Fatal(err)
	}
	synctest.Wait()
}

func (b *bench) job() *batchv1.Job {
	b.Helper()
	j, err := client.As[*batchv1.Job](b.api.Others.Get(b.Context(), at()))
	if err != nil {
		b.Fatal(err)
	}
	return j
}

// list returns the pods, in the order of their names.
func (b *bench) list() []corev1.Pod {
	b.Helper()
	list, err := client.As[*corev1.PodList](b.api.Others.List(b.Context(), podAt(""), metav1.ListOptions{}))
	if err != nil {
		b.Fatal(err)
	}
	return list.Items
}

// running returns the names of the active pods, by index and name.
func (b *bench) running() []string {
	b.Helper()
	var names []string
	for _, pod := range b.list() {
		if pod.DeletionTimestamp == nil && pod.Status.Phase != corev1.PodSucceeded && pod.Status.Phase != corev1.PodFailed {
			names = append(names, pod.Name)
		}
	}
	slices.Sort(names)
	return names
}

// phase changes that of a pod; its containers are told to have ended with a code, if it has ended.
func (b *bench) phase(name string, phase corev1.PodPhase, code int32) {
	b.Helper()
	t := podAt(name)
	t.Subresource = "status"
	update(b, t, func(pod *corev1.Pod) {
		pod.Status.Phase = phase
		if phase == corev1.PodRunning {
			pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now()}}
			return
		}
		pod.Status.Conditions = nil
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "main", State: corev1.ContainerState{
			Terminated: &corev1.ContainerStateTerminated{ExitCode: code, FinishedAt: metav1.Now()},
		}}}
	})
}

func (b *bench) succeed(names ...string) {
	b.Helper()
	for _, name := range names {
		b.phase(name, corev1.PodSucceeded, 0)
	}
	b.settle()
}

func (b *bench) fail(names ...string) {
	b.Helper()
	for _, name := range names {
		b.phase(name, corev1.PodFailed, 1)
	}
	b.settle()
}

// wantEvents compares events without regard to their order.
func (b *bench) wantEvents(want ...string) {
	b.Helper()
	got := b.events.Take()
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		b.Errorf("events:\n got %s\nwant %s", strings.Join(got, "\n     "), strings.Join(want, "\n     "))
	}
}

// wantStatus compares the counters and the conditions that are true.
func (b *bench) wantStatus(want string) {
	b.Helper()
	s := b.job().Status
	got := fmt.Sprintf("active %d ready %d terminating %d succeeded %d failed %d", s.Active, *s.Ready, *s.Terminating, s.Succeeded, s.Failed)
	if s.CompletedIndexes != "" {
		got += " completed " + s.CompletedIndexes
	}
	if s.FailedIndexes != nil {
		got += " lost " + *s.FailedIndexes
	}
	if u := s.UncountedTerminatedPods; u != nil && len(u.Succeeded)+len(u.Failed) > 0 {
		got += fmt.Sprintf(" uncounted %v %v", u.Succeeded, u.Failed)
	}
	for _, c := range s.Conditions {
		if c.Status == corev1.ConditionTrue {
			got += fmt.Sprintf(" %s(%s)", c.Type, c.Reason)
		}
	}
	if got != want {
		b.Errorf("status\n got %s\nwant %s", got, want)
	}
}

// wantTracked compares the names of the pods with the finalizer.
func (b *bench) wantTracked(want ...string) {
	b.Helper()
	var got []string
	for _, pod := range b.list() {
		if slices.Contains(pod.Finalizers, batchv1.JobTrackingFinalizer) {
			got = append(got, pod.Name)
		}
	}
	slices.Sort(got)
	if !slices.Equal(got, want) {
		b.Errorf("tracked %v, want %v", got, want)
	}
}
