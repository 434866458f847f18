package job_test

import (
	"slices"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/client/faults"
	"github.com/keelson-dev/keelson/controllers/job"
)

const (
	created   = "Normal SuccessfulCreate Created pod: "
	deleted   = "Normal SuccessfulDelete Deleted pod: "
	completed = "Normal Completed Job completed"
)

func TestCompletes(t *testing.T) {
	inBubble(t, func(b *bench) {
		j := newJob(3)
		j.Spec.Template.Finalizers = []string{"a/b"}
		b.start(j)
		b.wantEvents(created+"work-00001", created+"work-00002", created+"work-00003")
		pod := b.list()[0]
		if !slices.Equal(pod.Finalizers, []string{"a/b", batchv1.JobTrackingFinalizer}) || pod.GenerateName != "work-" || !metav1.IsControlledBy(&pod, b.job()) ||
			pod.Labels["batch.kubernetes.io/job-name"] != "work" || pod.Spec.Hostname != "" || len(pod.Spec.Containers[0].Env) != 0 {
			t.Errorf("created %+v", pod)
		}
		b.settle()
		b.wantStatus("active 3 ready 0 terminating 0 succeeded 0 failed 0")
		b.phase("work-00001", corev1.PodRunning, 0)
		b.settle()
		b.wantStatus("active 3 ready 1 terminating 0 succeeded 0 failed 0")
		b.succeed("work-00001", "work-00003")
		b.wantStatus("active 1 ready 0 terminating 0 succeeded 2 failed 0")
		b.wantTracked("work-00002")
		b.succeed("work-00002")
		b.wantStatus("active 0 ready 0 terminating 0 succeeded 3 failed 0 SuccessCriteriaMet(CompletionsReached) Complete(CompletionsReached)")
		b.wantTracked()
		b.wantEvents(completed)
		s := b.job().Status
		if s.StartTime == nil || s.CompletionTime == nil || !s.StartTime.Before(s.CompletionTime) {
			t.Errorf("from %v to %v", s.StartTime, s.CompletionTime)
		}
		if m := s.Conditions[1].Message; m != "Reached expected number of succeeded pods" {
			t.Errorf("complete since %q", m)
		}
		b.spec(func(s *batchv1.JobSpec) { s.Parallelism = new(int32(5)) })
		b.settle()
		b.wantEvents() // it is over
	})
}

// TestParallelism: no more pods run than asked for, nor more than are left to do.
func TestParallelism(t *testing.T) {
	inBubble(t, func(b *bench) {
		j := newJob(5)
		j.Spec.Parallelism = new(int32(2))
		b.start(j)
		b.wantEvents(created+"work-00001", created+"work-00002")
		b.succeed("work-00001", "work-00002")
		b.wantEvents(created+"work-00003", created+"work-00004")
		b.succeed("work-00003")
		b.wantEvents(created + "work-00005")
		b.succeed("work-00004")
		b.wantEvents()
		b.wantStatus("active 1 ready 0 terminating 0 succeeded 4 failed 0")
		b.succeed("work-00005")
		b.wantEvents(completed)
	})
}

// TestScale: surplus pods are deleted, and do not count as failed.
func TestScale(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.start(newJob(4))
		b.settle()
		b.phase("work-00001", corev1.PodRunning, 0)
		b.phase("work-00003", corev1.PodRunning, 0)
		b.events.Take()
		b.spec(func(s *batchv1.JobSpec) { s.Parallelism = new(int32(2)) })
		b.settle()
		b.wantEvents(deleted+"work-00002", deleted+"work-00004")
		b.wantStatus("active 2 ready 2 terminating 0 succeeded 0 failed 0")
		b.spec(func(s *batchv1.JobSpec) { s.Parallelism = new(int32(0)) })
		b.settle()
		b.wantEvents(deleted+"work-00001", deleted+"work-00003")
		b.wantStatus("active 0 ready 0 terminating 0 succeeded 0 failed 0")
	})
}

// TestWorkQueue: without completions, a job is done when one pod has succeeded and none is left.
func TestWorkQueue(t *testing.T) {
	inBubble(t, func(b *bench) {
		j := newJob(0)
		j.Spec.Completions, j.Spec.Parallelism = nil, new(int32(3))
		b.start(j)
		b.succeed("work-00002")
		b.after(time.Minute)
		b.wantEvents(created+"work-00001", created+"work-00002", created+"work-00003")
		b.wantStatus("active 2 ready 0 terminating 0 succeeded 1 failed 0")
		b.succeed("work-00001", "work-00003")
		b.wantEvents(completed)
		b.wantStatus("active 0 ready 0 terminating 0 succeeded 3 failed 0 SuccessCriteriaMet(CompletionsReached) Complete(CompletionsReached)")
	})
}

// TestBackoff: failed pods are replaced after 10 s, 20 s and so on, up to 10 minutes, and at once after a success.
func TestBackoff(t *testing.T) {
	inBubble(t, func(b *bench) {
		j := newJob(2)
		j.Spec.Parallelism, j.Spec.BackoffLimit = new(int32(1)), new(int32(20))
		b.start(j)
		for n, delay := range []time.Duration{10, 20, 40, 80, 160, 320, 600, 600} {
			delay *= time.Second
			b.phase(b.running()[0], corev1.PodFailed, 1)
			b.after(delay - 2*time.Second) // times of pods are in whole seconds
			if got := b.running(); len(got) != 0 {
				t.Fatalf("failure %d: replaced before %v: %v", n+1, delay, got)
			}
			b.after(5 * time.Second)
			if got := b.running(); len(got) != 1 {
				t.Fatalf("failure %d: not replaced after %v", n+1, delay)
			}
		}
		b.wantStatus("active 1 ready 0 terminating 0 succeeded 0 failed 8")
		b.succeed(b.running()[0])
		if b.controller.Record(key()) != 0 || len(b.running()) != 1 {
			t.Errorf("after a success %d failures, pods %v", b.controller.Record(key()), b.running())
		}
		b.fail(b.running()[0])
		b.after(10 * time.Second)
		if len(b.running()) != 1 {
			t.Error("the first failure after a success has a long delay")
		}
	})
}

func TestBackoffLimit(t *testing.T) {
	inBubble(t, func(b *bench) {
		j := newJob(2)
		j.Spec.BackoffLimit = new(int32(1))
		b.start(j)
		b.fail("work-00001")
		b.wantStatus("active 1 ready 0 terminating 0 succeeded 0 failed 1")
		b.after(15 * time.Second)
		b.wantEvents(created+"work-00001", created+"work-00002", created+"work-00003")
		b.phase("work-00002", corev1.PodRunning, 0)
		b.fail("work-00003")
		b.wantEvents(deleted+"work-00002", "Warning BackoffLimitExceeded Job has reached the specified backoff limit")
		b.wantStatus("active 0 ready 0 terminating 0 succeeded 0 failed 3 FailureTarget(BackoffLimitExceeded) Failed(BackoffLimitExceeded)")
		b.wantTracked()
		if b.job().Status.CompletionTime != nil {
			t.Error("a failed job has a completion time")
		}
	})
}

// TestRestartsInPlace: the limit applies to restarts of containers, too.
func TestRestartsInPlace(t *testing.T) {
	for limit, restarts := range map[int32]int32{0: 1, 1: 1, 2: 2, 3: 3} {
		inBubble(t, func(b *bench) {
			j := newJob(1)
			j.Spec.BackoffLimit = &limit
			j.Spec.Template.Spec.RestartPolicy = corev1.RestartPolicyOnFailure
			b.start(j)
			restart := func(n int32) {
				target := podAt("work-00001")
				target.Subresource = "status"
				update(b, target, func(p *corev1.Pod) {
					if limit%2 == 0 { // else it is pending
						p.Status.Phase = corev1.PodRunning
					}
					p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "main", RestartCount: n - 1}}
					p.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: "i", RestartCount: 1}}
				})
				b.settle()
			}
			if restarts > 1 {
				restart(restarts - 1)
			}
			b.wantStatus("active 1 ready 0 terminating 0 succeeded 0 failed 0")
			restart(restarts)
			b.wantStatus("active 0 ready 0 terminating 0 succeeded 0 failed 1 FailureTarget(BackoffLimitExceeded) Failed(BackoffLimitExceeded)")
		})
	}
}

// TestRestartsOfEnded: the restarts of pods that have ended do not count.
func TestRestartsOfEnded(t *testing.T) {
	inBubble(t, func(b *bench) {
		j := newJob(2)
		j.Spec.BackoffLimit, j.Spec.Parallelism = new(int32(3)), new(int32(1))
		j.Spec.Template.Spec.RestartPolicy = corev1.RestartPolicyOnFailure
		b.start(j)
		for i, name := range []string{"work-00001", "work-00002"} {
			target := podAt(name)
			target.Subresource = "status"
			update(b, target, func(p *corev1.Pod) {
				p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "main", RestartCount: 2}}
			})
			b.settle()
			if i == 0 {
				update(b, podAt(name), func(p *corev1.Pod) { p.Finalizers = append(p.Finalizers, "x/y") }) // it stays
				b.succeed(name)
			}
		}
		b.settle()
		b.wantStatus("active 1 ready 0 terminating 0 succeeded 1 failed 0")
	})
}

// TestNothingToDo: a job without pods tells that it is suspended, and is not complete before a pod has succeeded.
func TestNothingToDo(t *testing.T) {
	inBubble(t, func(b *bench) {
		j := newJob(0)
		j.Spec.Completions = nil
		b.start(j)
		b.settle()
		b.wantStatus("active 0 ready 0 terminating 0 succeeded 0 failed 0")
		b.spec(func(s *batchv1.JobSpec) { s.Suspend = new(true) })
		b.settle()
		b.wantStatus("active 0 ready 0 terminating 0 succeeded 0 failed 0 Suspended(JobSuspended)")
		b.wantEvents("Normal Suspended Job suspended")
	})
}

// TestStatusOfOthers: what somebody else writes into the status is corrected.
func TestStatusOfOthers(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.start(newJob(2))
		b.settle()
		target := at()
		target.Subresource = "status"
		update(b, target, func(j *batchv1.Job) { j.Status.Active = 9 })
		b.settle()
		b.wantStatus("active 2 ready 0 terminating 0 succeeded 0 failed 0")
	})
}

func TestDeadline(t *testing.T) {
	inBubble(t, func(b *bench) {
		j := newJob(2)
		j.Spec.ActiveDeadlineSeconds = new(int64(30))
		b.start(j)
		b.succeed("work-00001")
		b.after(20 * time.Second)
		b.wantStatus("active 1 ready 0 terminating 0 succeeded 1 failed 0")
		b.after(12 * time.Second)
		b.wantStatus("active 0 ready 0 terminating 0 succeeded 1 failed 1 FailureTarget(DeadlineExceeded) Failed(DeadlineExceeded)")
		b.wantEvents(created+"work-00001", created+"work-00002", deleted+"work-00002", "Warning DeadlineExceeded Job was active longer than specified deadline")
	})
	inBubble(t, func(b *bench) {
		b.start(newJob(1))
		b.after(time.Minute)
		b.spec(func(s *batchv1.JobSpec) { s.ActiveDeadlineSeconds = new(int64(90)) })
		b.after(20 * time.Second)
		b.wantStatus("active 1 ready 0 terminating 0 succeeded 0 failed 0")
		b.after(12 * time.Second)
		b.wantStatus("active 0 ready 0 terminating 0 succeeded 0 failed 1 FailureTarget(DeadlineExceeded) Failed(DeadlineExceeded)")
	})
}

// TestSuspend: a suspended job has no pods, and its deadline counts from when it resumes.
func TestSuspend(t *testing.T) {
	inBubble(t, func(b *bench) {
		j := newJob(2)
		j.Spec.Suspend, j.Spec.ActiveDeadlineSeconds = new(true), new(int64(100))
		b.start(j)
		b.settle()
		b.wantEvents("Normal Suspended Job suspended")
		b.wantStatus("active 0 ready 0 terminating 0 succeeded 0 failed 0 Suspended(JobSuspended)")
		if b.job().Status.StartTime != nil {
			t.Error("it has started")
		}
		b.after(time.Hour)
		b.spec(func(s *batchv1.JobSpec) { s.Suspend = new(false) })
		b.settle()
		b.wantEvents(created+"work-00001", created+"work-00002", "Normal Resumed Job resumed")
		if c := b.job().Status.Conditions; len(c) != 1 || c[0].Status != "False" || c[0].Reason != "JobResumed" {
			t.Errorf("conditions %+v", c)
		}
		b.succeed("work-00001")
		b.after(time.Minute)
		b.spec(func(s *batchv1.JobSpec) { s.Suspend = new(true) })
		b.settle()
		b.wantEvents(deleted+"work-00002", "Normal Suspended Job suspended")
		b.wantStatus("active 0 ready 0 terminating 0 succeeded 1 failed 0 Suspended(JobSuspended)")
		if b.job().Status.StartTime != nil {
			t.Error("it still runs")
		}
		b.after(time.Hour)
		b.spec(func(s *batchv1.JobSpec) { s.Suspend = new(false) })
		b.after(time.Minute)
		b.wantStatus("active 1 ready 0 terminating 0 succeeded 1 failed 0")
		b.after(time.Minute)
		b.wantStatus("active 0 ready 0 terminating 0 succeeded 1 failed 1 FailureTarget(DeadlineExceeded) Failed(DeadlineExceeded)")
	})
}

// TestManagedBy: a job of another controller is left alone.
func TestManagedBy(t *testing.T) {
	inBubble(t, func(b *bench) {
		j := newJob(1)
		j.Spec.ManagedBy = new("example.com/other")
		b.start(j)
		b.after(time.Minute)
		if w := b.api.Writes(); len(w) > 0 {
			t.Errorf("wrote %v", w)
		}
	})
	inBubble(t, func(b *bench) {
		j := newJob(1)
		j.Spec.ManagedBy = new("kubernetes.io/job-controller")
		b.start(j)
		b.wantEvents(created + "work-00001")
	})
}

func TestUnknownMode(t *testing.T) {
	run(t, &bench{stored: func(j *batchv1.Job) { j.Spec.CompletionMode = new(batchv1.CompletionMode("Some")) }}, func(b *bench) {
		b.start(newJob(1))
		b.wantEvents("Warning UnknownCompletionMode Skipped Job sync because completion mode is unknown")
		if w := b.api.Writes(); len(w) > 0 {
			t.Errorf("wrote %v", w)
		}
	})
}

// TestReplacement: pods that are being deleted are failed and replaced at once, or, if the job wants so, when they have ended.
func TestReplacement(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.start(newJob(1))
		b.phase("work-00001", corev1.PodRunning, 0)
		b.remove(podAt("work-00001"), nil)
		b.settle()
		b.wantStatus("active 0 ready 0 terminating 0 succeeded 0 failed 1")
		b.after(10 * time.Second)
		b.wantEvents(created+"work-00001", created+"work-00002")
		b.wantStatus("active 1 ready 0 terminating 0 succeeded 0 failed 1")
		b.wantTracked("work-00002")
	})
	inBubble(t, func(b *bench) {
		j := newJob(1)
		j.Spec.PodReplacementPolicy = new(batchv1.Failed)
		j.Spec.Template.Finalizers = []string{"a/b"}
		b.start(j)
		b.phase("work-00001", corev1.PodRunning, 0)
		b.remove(podAt("work-00001"), nil)
		b.after(time.Minute)
		b.wantEvents(created + "work-00001")
		b.wantStatus("active 0 ready 0 terminating 1 succeeded 0 failed 0")
		b.wantTracked("work-00001")
		b.fail("work-00001")
		b.wantStatus("active 0 ready 0 terminating 0 succeeded 0 failed 1")
		b.after(10 * time.Second)
		b.wantEvents(created + "work-00002")
	})
}

// TestTerminating: a job ends when its last pod has ended.
func TestTerminating(t *testing.T) {
	inBubble(t, func(b *bench) {
		j := newJob(2)
		j.Spec.BackoffLimit = new(int32(0))
		j.Spec.Template.Finalizers = []string{"a/b"}
		b.start(j)
		b.phase("work-00002", corev1.PodRunning, 0)
		b.fail("work-00001")
		b.wantStatus("active 0 ready 0 terminating 1 succeeded 0 failed 2 FailureTarget(BackoffLimitExceeded)")
		b.wantTracked()
		b.events.Take()
		b.after(time.Minute)
		b.wantEvents()
		update(b, podAt("work-00002"), func(p *corev1.Pod) { p.Finalizers = nil })
		b.settle()
		b.wantStatus("active 0 ready 0 terminating 0 succeeded 0 failed 2 FailureTarget(BackoffLimitExceeded) Failed(BackoffLimitExceeded)")
		b.wantEvents("Warning BackoffLimitExceeded Job has reached the specified backoff limit")
	})
}

// TestTooManySucceeded: pods that a job adopts count, too.
func TestTooManySucceeded(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.start(newJob(1))
		b.settle()
		orphan := &corev1.Pod{}
		orphan.Name, orphan.Namespace, orphan.Labels = "orphan", "ns", b.job().Spec.Template.Labels
		orphan.Status.Phase = corev1.PodSucceeded
		create(b, orphan)
		b.succeed("work-00001")
		b.after(time.Minute)
		b.wantStatus("active 0 ready 0 terminating 0 succeeded 2 failed 0 SuccessCriteriaMet(CompletionsReached) Complete(CompletionsReached)")
		b.wantTracked()
		b.wantEvents(created+"work-00001", "Warning TooManySucceededPods Too many succeeded pods running after completion count reached", completed)
	})
}

// TestUncounted: a status lists no more pods at once than it has room for, and counts all in the end.
func TestUncounted(t *testing.T) {
	listed := 0
	b := &bench{options: job.Options{Uncounted: 2}}
	b.before = func(r faults.Request) error {
		if r.Verb == faults.Patch {
			u := b.job().Status.UncountedTerminatedPods
			listed = max(listed, len(u.Succeeded)+len(u.Failed))
		}
		return nil
	}
	run(t, b, func(b *bench) {
		j := newJob(6)
		j.Spec.BackoffLimit = new(int32(2))
		b.start(j)
		for i, name := range b.running() {
			if i < 3 {
				b.phase(name, corev1.PodSucceeded, 0)
			} else {
				b.phase(name, corev1.PodFailed, 1)
			}
		}
		b.after(time.Minute)
		b.wantStatus("active 0 ready 0 terminating 0 succeeded 3 failed 3 FailureTarget(BackoffLimitExceeded) Failed(BackoffLimitExceeded)")
		b.wantTracked()
		if listed != 2 {
			t.Errorf("%d pods were listed at once", listed)
		}
	})
}

// TestBurst: only so many pods are created or deleted before the cache shows them.
func TestBurst(t *testing.T) {
	run(t, &bench{options: job.Options{Burst: 3}}, func(b *bench) {
		b.start(newJob(5))
		if n := len(b.running()); n != 3 {
			t.Errorf("%d pods at first", n)
		}
		b.settle()
		if n := len(b.running()); n != 5 {
			t.Errorf("%d pods then", n)
		}
		b.spec(func(s *batchv1.JobSpec) { s.Parallelism = new(int32(1)) })
		if n := len(b.running()); n != 2 {
			t.Errorf("%d pods remain at first", n)
		}
		b.settle()
		if n := len(b.running()); n != 1 {
			t.Errorf("%d pods remain then", n)
		}
	})
}
