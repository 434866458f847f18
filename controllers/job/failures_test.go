package job_test

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/client/faults"
	"github.com/keelson-dev/keelson/controllers/controllerstest"
	"github.com/keelson-dev/keelson/controllers/internal/trial"
)

// TestEveryFailure: whichever request fails, the failure is reported, a retry does the work, and every pod counts once.
func TestEveryFailure(t *testing.T) {
	trial.EveryFailure(t, nil, func(c *trial.Client, log *slog.Logger) (state string) {
		run(t, &bench{client: c, log: log}, func(b *bench) {
			b.start(newJob(4))
			b.after(time.Minute)
			for i, phase := range []corev1.PodPhase{corev1.PodSucceeded, corev1.PodFailed, corev1.PodSucceeded} {
				b.phase(b.running()[0], phase, int32(i%2))
			}
			b.after(time.Minute)
			b.spec(func(s *batchv1.JobSpec) { s.Suspend = new(true) })
			b.after(time.Minute)
			b.spec(func(s *batchv1.JobSpec) { s.Suspend = new(false) })
			b.after(time.Minute)
			orphan := &corev1.Pod{}
			orphan.Name, orphan.Namespace, orphan.Labels = "orphan", "ns", b.job().Spec.Template.Labels
			create(b, orphan) // is adopted, and is one too many
			b.after(time.Minute)
			b.spec(func(s *batchv1.JobSpec) { s.BackoffLimit = new(int32(0)) })
			b.after(time.Minute)
			s := b.job().Status
			tracked := 0
			for _, pod := range b.list() {
				tracked += len(pod.Finalizers)
			}
			state = fmt.Sprintf("active %d succeeded %d failed %d, %d tracked, %s %s", s.Active, s.Succeeded, s.Failed, tracked, s.Conditions[len(s.Conditions)-1].Type, s.UncountedTerminatedPods)
		})
		return state
	})
}

// TestEveryFailureOfIndexes is TestEveryFailure for a job with indexes.
func TestEveryFailureOfIndexes(t *testing.T) {
	trial.EveryFailure(t, nil, func(c *trial.Client, log *slog.Logger) (state string) {
		run(t, &bench{client: c, log: log}, func(b *bench) {
			j := indexedJob(3)
			j.Spec.BackoffLimitPerIndex = new(int32(1))
			b.start(j)
			b.after(time.Minute)
			b.phase(b.index(0), corev1.PodSucceeded, 0)
			b.phase(b.index(1), corev1.PodFailed, 1)
			b.after(2 * time.Minute)
			b.phase(b.index(1), corev1.PodFailed, 1)
			b.after(2 * time.Minute)
			b.phase(b.index(2), corev1.PodSucceeded, 0)
			b.after(2 * time.Minute)
			s := b.job().Status
			tracked := 0
			for _, pod := range b.list() {
				tracked += len(pod.Finalizers)
			}
			state = fmt.Sprintf("active %d succeeded %d %s failed %d %s, %d tracked, %d conditions", s.Active, s.Succeeded, s.CompletedIndexes, s.Failed, *s.FailedIndexes, tracked, len(s.Conditions))
		})
		return state
	})
}

// TestCannotCreate: creations stop at the first failure, which has an event, and go on later.
func TestCannotCreate(t *testing.T) {
	var up atomic.Bool
	creations := 0
	b := &bench{before: func(r faults.Request) error {
		if r.Verb != faults.Create {
			return nil
		}
		if creations++; !up.Load() && creations > 1 {
			return errors.New("no quota")
		}
		return nil
	}}
	run(t, b, func(b *bench) {
		b.start(newJob(8))
		if creations != 2+1 || len(b.running()) != 1 {
			t.Errorf("%d creations, pods %v", creations, b.running())
		}
		b.wantEvents(created+"work-00001", "Warning FailedCreate Error creating: no quota", "Warning FailedCreate Error creating: no quota")
		b.wantStatus("active 1 ready 0 terminating 0 succeeded 0 failed 0")
		up.Store(true)
		b.after(time.Minute)
		b.wantStatus("active 8 ready 0 terminating 0 succeeded 0 failed 0")
	})
}

// TestNamespaceGoes: there is no event about pods that cannot be created in a namespace that is being deleted.
func TestNamespaceGoes(t *testing.T) {
	terminating := apierrors.NewForbidden(controllerstest.Pods().GroupResource(), "", errors.New("going"))
	terminating.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
	b := &bench{before: func(r faults.Request) error {
		if r.Verb == faults.Create {
			return terminating
		}
		return nil
	}}
	run(t, b, func(b *bench) {
		b.start(newJob(2))
		b.after(time.Minute)
		b.wantEvents()
	})
}

func TestCannotDelete(t *testing.T) {
	var up atomic.Bool
	b := &bench{before: func(r faults.Request) error {
		if r.Verb == faults.Delete && !up.Load() {
			return errors.New("not now")
		}
		return nil
	}}
	run(t, b, func(b *bench) {
		j := newJob(1)
		j.Spec.ActiveDeadlineSeconds = new(int64(10))
		b.start(j)
		b.events.Take()
		b.after(11 * time.Second)
		b.wantStatus("active 1 ready 0 terminating 0 succeeded 0 failed 0")
		if got := b.events.Take(); len(got) == 0 || got[0] != "Warning FailedDelete Error deleting: not now" {
			t.Errorf("events %q", got)
		}
		up.Store(true)
		b.after(time.Minute)
		b.wantStatus("active 0 ready 0 terminating 0 succeeded 0 failed 1 FailureTarget(DeadlineExceeded) Failed(DeadlineExceeded)")
	})
}

// TestGone: what is gone already counts as deleted.
func TestGone(t *testing.T) {
	b := &bench{before: func(r faults.Request) error {
		if r.Verb == faults.Delete || r.Verb == faults.Patch {
			return apierrors.NewNotFound(controllerstest.Pods().GroupResource(), r.Target.Name)
		}
		return nil
	}}
	run(t, b, func(b *bench) {
		j := newJob(1)
		j.Spec.BackoffLimit = new(int32(0))
		b.start(j)
		b.settle()
		b.events.Take()
		b.fail("work-00001")
		b.after(time.Minute)
		b.wantStatus("active 0 ready 0 terminating 0 succeeded 0 failed 1 FailureTarget(BackoffLimitExceeded) Failed(BackoffLimitExceeded)")
		b.wantEvents("Warning BackoffLimitExceeded Job has reached the specified backoff limit")
	})
}

// TestSlowCache: what the cache does not show yet is not done again.
func TestSlowCache(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.pods.Hold()
		b.start(newJob(2))
		b.after(time.Minute)
		if n := len(b.running()); n != 2 {
			t.Errorf("%d pods", n)
		}
		b.pods.Resume()
		b.after(time.Minute)
		b.pods.Hold()
		b.spec(func(s *batchv1.JobSpec) { s.Parallelism = new(int32(1)) })
		b.after(time.Minute)
		if n := len(b.running()); n != 1 {
			t.Errorf("%d pods remain", n)
		}
		b.pods.Resume()
		b.after(time.Minute)
		b.pods.Hold()
		left := b.running()[0]
		b.phase(left, corev1.PodSucceeded, 0)
		b.pods.Resume()
		b.jobs.Hold()
		b.after(time.Minute)
		b.jobs.Resume()
		b.after(time.Minute)
		b.wantStatus("active 1 ready 0 terminating 0 succeeded 1 failed 0")
	})
}

// TestCountsOnce: a pod whose end was counted does not count again while the cache still shows it as it was.
func TestCountsOnce(t *testing.T) {
	b := &bench{}
	b.before = func(r faults.Request) error {
		if r.Verb == faults.Patch {
			b.pods.Hold()
		}
		return nil
	}
	run(t, b, func(b *bench) {
		b.start(newJob(3))
		b.settle()
		b.phase("work-00001", corev1.PodSucceeded, 0)
		b.settle()
		for i := range 3 {
			update(b, at(), func(j *batchv1.Job) { j.Annotations = map[string]string{"touched": fmt.Sprint(i)} })
			b.settle()
		}
		b.wantStatus("active 2 ready 0 terminating 0 succeeded 1 failed 0")
		b.pods.Resume()
		b.settle()
		b.wantStatus("active 2 ready 0 terminating 0 succeeded 1 failed 0")
	})
}

// TestDeletedJob: pods of a job that is being deleted lose the finalizer, whether they have ended or not, and none is created.
func TestDeletedJob(t *testing.T) {
	foreground, background := metav1.DeletePropagationForeground, metav1.DeletePropagationBackground
	inBubble(t, func(b *bench) {
		b.start(newJob(2))
		b.settle()
		b.events.Take()
		b.remove(at(), &foreground)
		b.after(time.Minute)
		b.wantTracked()
		b.remove(podAt("work-00001"), nil)
		b.after(time.Minute)
		b.wantEvents()
	})
	inBubble(t, func(b *bench) {
		b.start(newJob(2))
		b.settle()
		b.remove(at(), &background)
		b.after(time.Minute)
		b.wantTracked()
		b.remove(podAt("work-00001"), nil)
		b.after(time.Minute)
		if n := len(b.list()); n != 1 {
			t.Errorf("%d pods", n)
		}
	})
}

// TestOrphans: pods that no job will count lose the finalizer.
func TestOrphans(t *testing.T) {
	tracked := func(name string, owner *metav1.OwnerReference) *corev1.Pod {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "ns", Labels: map[string]string{"a": "b"}, Finalizers: []string{batchv1.JobTrackingFinalizer}}}
		if owner != nil {
			pod.OwnerReferences = []metav1.OwnerReference{*owner}
		}
		return pod
	}
	ref := func(kind, name, uid string) *metav1.OwnerReference {
		return &metav1.OwnerReference{APIVersion: "batch/v1", Kind: kind, Name: name, Controller: new(true), UID: types.UID(uid)}
	}
	inBubble(t, func(b *bench) {
		create(b, tracked("nobody", nil))
		b.wantTracked()
		create(b, tracked("strange", ref("ReplicaSet", "x", "x")))
		create(b, tracked("lost", ref("Job", "gone", "x")))
		b.after(time.Minute)
		b.wantTracked("lost", "strange")
		b.remove(podAt("strange"), nil)
		b.remove(podAt("lost"), nil)
		b.after(time.Minute)
		b.wantTracked("strange") // another controller may know what it is for
	})
	inBubble(t, func(b *bench) { // one that gets lost
		b.start(newJob(1))
		b.settle()
		update(b, podAt("work-00001"), func(p *corev1.Pod) { p.Labels = map[string]string{"x": "y"} })
		b.settle()
		b.wantTracked("work-00002")
	})
	inBubble(t, func(b *bench) { // one that comes too late
		b.start(newJob(1))
		b.succeed("work-00001")
		create(b, tracked("late", ref("Job", "work", b.uid)))
		b.after(time.Minute)
		b.wantTracked("late")
		update(b, at(), func(j *batchv1.Job) { j.Labels = map[string]string{"touched": ""} })
		b.wantTracked("late") // whose labels the job does not select
		b.remove(podAt("late"), nil)
		b.wantTracked()
	})
	inBubble(t, func(b *bench) { // one of another controller
		j := newJob(1)
		j.Spec.ManagedBy = new("a.b/c")
		b.start(j)
		pod := tracked("theirs", ref("Job", "work", b.uid))
		pod.Labels = b.job().Spec.Template.Labels
		create(b, pod)
		target := at()
		target.Subresource = "status"
		update(b, target, func(j *batchv1.Job) {
			j.Status.StartTime = new(metav1.Now())
			j.Status.Conditions = []batchv1.JobCondition{{Type: "FailureTarget", Status: "True"}, {Type: "Failed", Status: "True"}}
		})
		b.remove(podAt("theirs"), nil)
		b.after(time.Minute)
		b.wantTracked("theirs")
		b.remove(at(), new(metav1.DeletePropagationBackground))
		b.after(time.Minute)
		b.wantTracked()
	})
}

// TestAdoption: pods that a job selects get its finalizer, and lose it when it selects them no longer.
func TestAdoption(t *testing.T) {
	inBubble(t, func(b *bench) {
		j := newJob(1)
		j.Spec.ManualSelector, j.Spec.Selector = new(true), &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}
		j.Spec.Template.Labels = map[string]string{"a": "b"}
		create(b, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "orphan", Namespace: "ns", Labels: map[string]string{"a": "b"}}})
		b.start(j)
		b.settle()
		b.wantEvents()
		b.wantTracked("orphan")
		b.wantStatus("active 1 ready 0 terminating 0 succeeded 0 failed 0")
		update(b, podAt("orphan"), func(p *corev1.Pod) { p.Labels = nil })
		b.settle()
		b.wantEvents(created + "work-00001")
		b.wantTracked("work-00001")
		update(b, podAt("orphan"), func(p *corev1.Pod) { p.Labels = map[string]string{"a": "b"} })
		b.settle()
		b.wantTracked("orphan")
		if got := b.running(); len(got) != 1 {
			t.Errorf("running %v", got)
		}
	})
}

// TestAdoptsOnce: a pod that was adopted is not adopted again while the cache still shows it as an orphan.
func TestAdoptsOnce(t *testing.T) {
	inBubble(t, func(b *bench) {
		j := newJob(1)
		j.Spec.ManualSelector, j.Spec.Selector = new(true), &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}
		j.Spec.Template.Labels = map[string]string{"a": "b"}
		create(b, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "orphan", Namespace: "ns", Labels: map[string]string{"a": "b"}}})
		b.pods.Hold()
		b.api.Reset()
		b.start(j)
		for i := range 3 {
			update(b, at(), func(j *batchv1.Job) { j.Annotations = map[string]string{"touched": fmt.Sprint(i)} })
			b.settle()
		}
		patches := 0
		for _, w := range b.api.Writes() {
			if w.Verb == faults.Patch {
				patches++
			}
		}
		if patches != 1 {
			t.Errorf("%d patches", patches)
		}
		b.pods.Resume()
	})
}

// TestFailsAsAnnounced: once a failure is announced, all pods that are left count as failed, in later looks, too.
func TestFailsAsAnnounced(t *testing.T) {
	inBubble(t, func(b *bench) {
		j := newJob(2)
		j.Spec.BackoffLimit, j.Spec.PodReplacementPolicy = new(int32(0)), new(batchv1.Failed)
		b.start(j)
		b.phase("work-00001", corev1.PodFailed, 1)
		b.api.Inject(faults.Fault{Verb: faults.Patch, Name: "work-00002", Err: trial.ErrDown})
		b.after(time.Minute)
		b.wantStatus("active 0 ready 0 terminating 0 succeeded 0 failed 2 FailureTarget(BackoffLimitExceeded) Failed(BackoffLimitExceeded)")
	})
}

// TestNewJobSameName: a new job has nothing of its predecessor.
func TestNewJobSameName(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.start(newJob(1))
		b.fail("work-00001")
		if b.controller.Record(key()) != 1 {
			t.Error("no failure is remembered")
		}
		b.remove(at(), new(metav1.DeletePropagationBackground))
		b.start(newJob(1))
		b.after(time.Second)
		if n := b.controller.Record(key()); n != 0 {
			t.Errorf("%d failures", n)
		}
		if got := b.running(); len(got) != 1 || !strings.HasPrefix(got[0], "work-") {
			t.Errorf("running %v", got)
		}
		synctest.Wait()
	})
}
