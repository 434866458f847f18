package job_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/controllers"
	"github.com/keelson-dev/keelson/controllers/controllerstest"
	"github.com/keelson-dev/keelson/controllers/internal/trial"
	"github.com/keelson-dev/keelson/controllers/job"
	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/informer/memory"
)

// caches are both controllers without loops, behind caches that show what the test puts into them.
type caches struct {
	*testing.T
	jobs    *memory.Store[*batchv1.Job]
	pods    *memory.Store[*corev1.Pod]
	server  trial.Server
	queue   trial.Queue // of jobs
	orphans trial.Queue // of pods
	events  controllerstest.Recorder
	job     *job.Controller
	orphan  *job.Orphans
}

func withCaches(t *testing.T, test func(c *caches)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := &caches{T: t, jobs: memory.New[*batchv1.Job](), pods: memory.New[*corev1.Pod]()}
		o := informer.Options{DetectMutations: func(err error) { t.Error(err) }}
		in := job.Sources{Jobs: informer.New[*batchv1.Job](c.jobs, o), Pods: informer.New[*corev1.Pod](c.pods, o)}
		c.job, c.orphan = job.New(in, &c.server, &c.events, job.Options{Parallel: 1}), job.NewOrphans(in, &c.server)
		c.job.Watch(&c.queue)
		c.orphan.Watch(&c.orphans)
		controllerstest.Go(t, in.Jobs, in.Pods)
		test(c)
	})
}

// stored returns a job of n completions as the server has it, with what has changed.
func stored(n int32, changes ...func(*batchv1.Job)) *batchv1.Job {
	labels := map[string]string{"app": "work"}
	j := newJob(n)
	j.UID, j.CreationTimestamp = "1", metav1.Now()
	j.Spec.BackoffLimit, j.Spec.Selector = new(int32(6)), &metav1.LabelSelector{MatchLabels: labels}
	j.Spec.Template.Labels, j.Spec.Template.Spec.RestartPolicy = labels, corev1.RestartPolicyNever
	j.Spec.Template.Spec.Containers = []corev1.Container{{Name: "main", Image: "i"}}
	j.Status.StartTime, j.Status.UncountedTerminatedPods = new(metav1.Now()), &batchv1.UncountedTerminatedPods{}
	for _, change := range changes {
		change(j)
	}
	return j
}

func byIndex(j *batchv1.Job) { j.Spec.CompletionMode = new(batchv1.IndexedCompletion) }

// podOf returns a pod of a job, with the finalizer.
func podOf(j *batchv1.Job, name string, phase corev1.PodPhase, changes ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: "ns", Name: name, UID: types.UID("uid of " + name), Labels: j.Spec.Template.Labels, Finalizers: []string{batchv1.JobTrackingFinalizer},
		CreationTimestamp: metav1.Now(), Annotations: map[string]string{}, OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(j, batchv1.SchemeGroupVersion.WithKind("Job"))},
	}}
	p.Status.Phase = phase
	for _, change := range changes {
		change(p)
	}
	return p
}

func index(text string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Annotations[batchv1.JobCompletionIndexAnnotation] = text }
}

// look reconciles the job and returns the requests, each kind with how often, and the error.
func (c *caches) look() string {
	c.Helper()
	synctest.Wait()
	_, err := c.job.Reconcile(c.Context(), key())
	var said []string
	for asked := c.server.Take(); len(asked) > 0; {
		n := 1
		for n < len(asked) && asked[n] == asked[0] {
			n++
		}
		said, asked = append(said, strings.TrimSuffix(fmt.Sprintf("%s×%d", asked[0], n), "×1")), asked[n:]
	}
	if err != nil {
		said = append(said, err.Error())
	}
	return strings.Join(said, ", ")
}

func (c *caches) expect(what, got, want string) {
	c.Helper()
	if got != want {
		c.Errorf("%s: %s, want %s", what, got, want)
	}
}

// TestLooks: single looks at a job, by what they ask of the server and the status that they write last.
func TestLooks(t *testing.T) {
	const create, status = "get jobs, create pods", "update jobs/status"
	exited := func(code int32) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "main", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code, FinishedAt: metav1.Now()}}}}
		}
	}
	later := func(p *corev1.Pod) {
		p.Status.ContainerStatuses[0].State.Terminated.FinishedAt = metav1.NewTime(time.Now().Add(time.Second))
	}
	type pods = []*corev1.Pod
	for name, tt := range map[string]struct {
		job    *batchv1.Job
		pods   func(j *batchv1.Job) pods
		fail   string
		want   string
		status func(s batchv1.JobStatus) string
		is     string
	}{
		"many to create": {job: stored(600), want: create + "×500, " + status},
		"many to count": {job: stored(600), want: status + ", patch pods×500, " + status, pods: func(j *batchv1.Job) (all pods) {
			for i := range 600 {
				all = append(all, podOf(j, fmt.Sprint("p", i), corev1.PodSucceeded))
			}
			return all
		}},
		"not complete": {job: stored(1, func(j *batchv1.Job) {
			j.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobComplete, Status: "False"}}
		}), want: create + ", " + status},
		"complete": {job: stored(1, func(j *batchv1.Job) {
			j.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobComplete, Status: "True"}}
		})},
		"of another controller": {job: stored(1, func(j *batchv1.Job) { j.Spec.ManagedBy = new("example.com/x") })},
		"a container fails and the pod goes on": {
			job: stored(1, func(j *batchv1.Job) {
				j.Spec.PodFailurePolicy = &batchv1.PodFailurePolicy{Rules: []batchv1.PodFailurePolicyRule{{Action: "FailJob", OnExitCodes: &batchv1.PodFailurePolicyOnExitCodesRequirement{Operator: "In", Values: []int32{5}}}}}
			}),
			pods: func(j *batchv1.Job) pods { return pods{podOf(j, "a", corev1.PodRunning, exited(5))} }, want: status,
			status: conditions,
		},
		"an index that failed and was done": {
			job: stored(2, byIndex, func(j *batchv1.Job) { j.Status.CompletedIndexes, j.Status.Succeeded = "0", 1 }),
			pods: func(j *batchv1.Job) pods {
				return pods{podOf(j, "a", corev1.PodFailed, index("0"), exited(1)), podOf(j, "b", corev1.PodRunning, index("1"))}
			},
			want: status + ", patch pods, " + status, status: func(s batchv1.JobStatus) string { return fmt.Sprint(s.Failed, s.CompletedIndexes) }, is: "10",
		},
		"a negative index": {
			job: stored(1, byIndex),
			pods: func(j *batchv1.Job) pods {
				return pods{podOf(j, "a", corev1.PodRunning, index("-5")), podOf(j, "b", corev1.PodRunning, index("0"))}
			},
			want: "patch pods, delete pods, " + status,
		},
		"a failure of no index": {
			job: stored(1, byIndex, func(j *batchv1.Job) { j.Spec.BackoffLimit = new(int32(0)) }),
			pods: func(j *batchv1.Job) pods {
				return pods{podOf(j, "a", corev1.PodFailed, index("7"), exited(1)), podOf(j, "b", corev1.PodRunning, index("0"))}
			},
			want: status + ", patch pods", status: conditions,
		},
		"fewer than no failures": {
			job: stored(2, byIndex, func(j *batchv1.Job) { j.Spec.BackoffLimitPerIndex = new(int32(0)) }),
			pods: func(j *batchv1.Job) pods {
				return pods{podOf(j, "b", corev1.PodRunning, index("1")), podOf(j, "a", corev1.PodFailed, index("0"), exited(1), func(p *corev1.Pod) {
					p.Annotations[batchv1.JobIndexFailureCountAnnotation] = "-3"
				})}
			},
			want: status + ", patch pods, " + status, status: func(s batchv1.JobStatus) string { return *s.FailedIndexes }, is: "0",
		},
		"too many failures to count": {
			job: stored(2, byIndex, func(j *batchv1.Job) { j.Spec.BackoffLimitPerIndex = new(int32(0)) }),
			pods: func(j *batchv1.Job) pods {
				return pods{podOf(j, "b", corev1.PodRunning, index("1")), podOf(j, "a", corev1.PodFailed, index("0"), exited(1), func(p *corev1.Pod) {
					p.Annotations[batchv1.JobIndexFailureCountAnnotation] = "4294967295" // -1 in 32 bits
				})}
			},
			want: status + ", patch pods, " + status, status: func(s batchv1.JobStatus) string { return *s.FailedIndexes }, is: "0",
		},
		"listed and not counted yet": {
			job:  stored(3, func(j *batchv1.Job) { j.Status.UncountedTerminatedPods.Succeeded = []types.UID{"uid of a"} }),
			pods: func(j *batchv1.Job) pods { return pods{podOf(j, "a", corev1.PodSucceeded)} },
			want: create + "×2, " + status + ", patch pods, " + status, status: func(s batchv1.JobStatus) string { return fmt.Sprint(s.Succeeded) }, is: "1",
		},
		"the pod that failed more often": {
			job: stored(2, byIndex, func(j *batchv1.Job) { j.Spec.BackoffLimitPerIndex = new(int32(3)) }),
			pods: func(j *batchv1.Job) pods {
				return pods{podOf(j, "c", corev1.PodRunning, index("1")), podOf(j, "a", corev1.PodFailed, index("0"), exited(1), func(p *corev1.Pod) {
					p.Annotations[batchv1.JobIndexFailureCountAnnotation] = "1"
				}), podOf(j, "b", corev1.PodFailed, index("0"), exited(1), later)}
			},
			fail: "patch pods", want: status + ", patch pods, tracking status: down", status: func(s batchv1.JobStatus) string { return fmt.Sprint(s.UncountedTerminatedPods.Failed) }, is: "[uid of b]",
		},
		"two failures of an index": {
			job: stored(2, byIndex, func(j *batchv1.Job) { j.Spec.BackoffLimitPerIndex = new(int32(3)) }),
			pods: func(j *batchv1.Job) pods {
				return pods{podOf(j, "c", corev1.PodRunning, index("1")), podOf(j, "a", corev1.PodFailed, index("0"), exited(1)), podOf(j, "b", corev1.PodFailed, index("0"), exited(1), later)}
			},
			want: status + ", patch pods, " + status, status: func(s batchv1.JobStatus) string { return fmt.Sprint(s.Failed, len(s.UncountedTerminatedPods.Failed)) }, is: "1 0",
		},
		"two failures of an index, the later one first": {
			job: stored(2, byIndex, func(j *batchv1.Job) { j.Spec.BackoffLimitPerIndex = new(int32(3)) }),
			pods: func(j *batchv1.Job) pods {
				return pods{podOf(j, "c", corev1.PodRunning, index("1")), podOf(j, "b", corev1.PodFailed, index("0"), exited(1)), podOf(j, "a", corev1.PodFailed, index("0"), exited(1), later)}
			},
			want: status + ", patch pods, " + status, status: func(s batchv1.JobStatus) string { return fmt.Sprint(s.Failed, len(s.UncountedTerminatedPods.Failed)) }, is: "1 0",
		},
		"all indexes are done": {
			job: stored(1, byIndex, func(j *batchv1.Job) {
				j.Spec.BackoffLimitPerIndex, j.Status.CompletedIndexes, j.Status.Succeeded = new(int32(1)), "0", 1
			}),
			want: status + "×2", status: conditions, is: "SuccessCriteriaMet=True, Complete=True",
		},
		"a failure that was taken back": {
			job: stored(1, func(j *batchv1.Job) {
				j.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobFailureTarget, Status: "False"}}
			}),
			want: create + ", " + status, status: conditions, is: "FailureTarget=False",
		},
		"a success that was taken back": {
			job: stored(1, func(j *batchv1.Job) {
				j.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobSuccessCriteriaMet, Status: "False"}}
			}),
			want: create + ", " + status, status: conditions, is: "SuccessCriteriaMet=False",
		},
		"indexes that failed when there was a limit": {
			job:  stored(1, byIndex, func(j *batchv1.Job) { j.Status.FailedIndexes = new("0") }),
			pods: func(j *batchv1.Job) pods { return pods{podOf(j, "a", corev1.PodRunning, index("0"))} },
			want: status, status: func(s batchv1.JobStatus) string { return fmt.Sprint(s.FailedIndexes == nil) }, is: "true",
		},
		"a status of an older version": {
			job:  stored(1, func(j *batchv1.Job) { j.Status.Ready, j.Status.Active = new(int32(0)), 1 }),
			pods: func(j *batchv1.Job) pods { return pods{podOf(j, "a", corev1.PodRunning)} },
			want: status, status: func(s batchv1.JobStatus) string { return fmt.Sprint(*s.Terminating) }, is: "0",
		},
		"another message": {
			job: stored(1, func(j *batchv1.Job) {
				j.Spec.Suspend = new(true)
				j.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobSuspended, Status: "True", Reason: "JobSuspended", Message: "hello"}}
			}),
			want: status, status: func(s batchv1.JobStatus) string { return s.Conditions[0].Message }, is: "Job suspended",
		},
		"a selector that is none": {job: stored(1, func(j *batchv1.Job) {
			j.Spec.Selector.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Like"}}
		})},
		"restarts of what has ended": {
			job: stored(2, func(j *batchv1.Job) {
				j.Spec.BackoffLimit, j.Spec.Template.Spec.RestartPolicy = new(int32(0)), corev1.RestartPolicyOnFailure
			}),
			pods: func(j *batchv1.Job) pods {
				return pods{podOf(j, "b", corev1.PodRunning), podOf(j, "a", corev1.PodSucceeded, func(p *corev1.Pod) { p.Status.ContainerStatuses = []corev1.ContainerStatus{{RestartCount: 9}} })}
			},
			want: status + ", patch pods, " + status, status: conditions,
		},
		"restarts of what is always restarted": {
			job: stored(1, func(j *batchv1.Job) { j.Spec.BackoffLimit = new(int32(0)) }),
			pods: func(j *batchv1.Job) pods {
				return pods{podOf(j, "a", corev1.PodRunning, func(p *corev1.Pod) {
					p.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: "s", RestartCount: 9}}
				})}
			},
			want: status, status: conditions,
		},
	} {
		t.Run(name, func(t *testing.T) {
			withCaches(t, func(c *caches) {
				c.server.Answer("jobs ns/work", tt.job)
				c.server.Fail(tt.fail, trial.ErrDown)
				c.jobs.Put(tt.job)
				if tt.pods != nil {
					for _, p := range tt.pods(tt.job) {
						c.pods.Put(p)
					}
				}
				c.expect("requests", c.look(), tt.want)
				if tt.status != nil {
					c.expect("status", tt.status(c.server.Written().(*batchv1.Job).Status), tt.is)
				}
			})
		})
	}
}

// TestBehind: what was done and is not shown yet is not done again, but by a new job of the same name.
func TestBehind(t *testing.T) {
	withCaches(t, func(c *caches) {
		j := c.jobs.Put(stored(1))
		c.server.Answer("jobs ns/work", j)
		newer := j.DeepCopy()
		newer.ResourceVersion = "99"
		c.server.Answer("jobs/status ns/work", newer)
		c.expect("first", c.look(), "get jobs, create pods, update jobs/status")
		c.expect("not shown", c.look(), "")
		c.jobs.Delete("ns", "work")
		next := c.jobs.Put(stored(1, func(j *batchv1.Job) { j.UID = "2" }))
		c.server.Answer("jobs ns/work", next)
		c.server.Answer("jobs/status ns/work", nil)
		c.expect("a new one", c.look(), "get jobs, create pods, update jobs/status")
		c.expect("its pod is not shown", c.look(), "update jobs/status")
		c.pods.Put(podOf(next, "a", corev1.PodRunning))
		c.jobs.Put(stored(1, func(j *batchv1.Job) { j.UID, j.Spec.Suspend = "2", new(true) }))
		c.server.Fail("patch pods", trial.ErrDown)
		c.expect("a pod too many", c.look(), "patch pods, update jobs/status, removing completion finalizer: down")
		if r := c.job.Retry(); r.First != time.Second || r.Max != time.Minute {
			t.Errorf("tried again %+v", r)
		}
	})
}

// TestOwnVariable: a container that has the variable of the index keeps its own.
func TestOwnVariable(t *testing.T) {
	inBubble(t, func(b *bench) {
		j := indexedJob(1)
		j.Spec.Template.Spec.Containers = []corev1.Container{
			{Name: "own", Image: "i", Env: []corev1.EnvVar{{Name: "JOB_COMPLETION_INDEX", Value: "mine"}}}, {Name: "other", Image: "i"},
		}
		b.start(j)
		b.after(time.Minute)
		made := b.list()
		if len(made) != 1 || len(made[0].Spec.Containers[0].Env) != 1 || made[0].Spec.Containers[0].Env[0].Value != "mine" || len(made[0].Spec.Containers[1].Env) != 1 {
			b.Errorf("pods %+v", made)
		}
	})
}

func conditions(s batchv1.JobStatus) string {
	var all []string
	for _, c := range s.Conditions {
		all = append(all, fmt.Sprintf("%s=%s", c.Type, c.Status))
	}
	return strings.Join(all, ", ")
}

// TestOrphanLooks: whose finalizer is taken.
func TestOrphanLooks(t *testing.T) {
	ended := func(j *batchv1.Job) {
		j.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobFailed, Status: "True"}}
	}
	for name, tt := range map[string]struct {
		job  *batchv1.Job
		to   func(p *corev1.Pod)
		err  error
		want string
	}{
		"of a job that goes on":         {job: stored(1)},
		"of one that has ended":         {job: stored(1, ended), want: "patch pods"},
		"of another controller's":       {job: stored(1, func(j *batchv1.Job) { j.Spec.ManagedBy = new("x") })},
		"of another controller's ended": {job: stored(1, ended, func(j *batchv1.Job) { j.Spec.ManagedBy = new("x") })},
		"of one that is gone":           {want: "patch pods"},
		"of one of another life":        {job: stored(1, func(j *batchv1.Job) { j.UID = "2" }), want: "patch pods"},
		"of nobody":                     {job: stored(1), to: func(p *corev1.Pod) { p.OwnerReferences = nil }, want: "patch pods"},
		"of another kind":               {to: func(p *corev1.Pod) { p.OwnerReferences[0].Kind = "Work" }},
		"of another group":              {to: func(p *corev1.Pod) { p.OwnerReferences[0].APIVersion = "example.com/v1" }},
		"without the finalizer":         {to: func(p *corev1.Pod) { p.Finalizers = nil }},
		"deleted meanwhile":             {err: apierrors.NewNotFound(corev1.Resource("pods"), "a"), want: "patch pods"},
		"failing":                       {err: trial.ErrDown, want: "patch pods, down"},
	} {
		t.Run(name, func(t *testing.T) {
			withCaches(t, func(c *caches) {
				p := podOf(stored(1), "a", corev1.PodSucceeded)
				if tt.to != nil {
					tt.to(p)
				}
				c.pods.Put(p)
				if tt.job != nil {
					c.jobs.Put(tt.job)
				}
				c.server.Answer("pods", p)
				c.server.Fail("patch pods", tt.err)
				synctest.Wait()
				_, err := c.orphan.Reconcile(t.Context(), controllers.KeyOf(p))
				got := c.server.Take()
				if err != nil {
					got = append(got, err.Error())
				}
				c.expect("requests", strings.Join(got, ", "), tt.want)
			})
		})
	}
}

// TestOrphanGone: a pod that is gone is nobody's to look at.
func TestOrphanGone(t *testing.T) {
	withCaches(t, func(c *caches) {
		if _, err := c.orphan.Reconcile(t.Context(), controllers.Key{Namespace: "ns", Name: "a"}); err != nil || len(c.server.Take()) > 0 {
			t.Error(err)
		}
	})
}

// TestQueued: which jobs and which pods are looked at when something changes.
func TestQueued(t *testing.T) {
	withCaches(t, func(c *caches) {
		expect := func(what, jobs, orphans string) {
			t.Helper()
			synctest.Wait()
			c.expect(what+", jobs", c.queue.Take(), jobs)
			c.expect(what+", orphans", c.orphans.Take(), orphans)
		}
		const later = "ns/work+1s"
		open := stored(1)
		open.Name, open.UID = "open", "3"
		open.Spec.Selector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "app", Operator: metav1.LabelSelectorOpDoesNotExist}}}
		c.jobs.Put(open)
		expect("a job that selects what has no label", "ns/open", "")
		unlabelled := podOf(open, "bare", corev1.PodRunning)
		unlabelled.OwnerReferences, unlabelled.Labels, unlabelled.Finalizers = nil, nil, nil
		c.pods.Put(unlabelled)
		expect("a pod without labels", "", "")
		j := c.jobs.Put(stored(1))
		expect("a job", "ns/work", "")
		other := stored(1)
		other.Name, other.UID = "other", "2"
		other.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "other"}}
		c.jobs.Put(other)
		expect("another", "ns/other", "")
		put := func(p *corev1.Pod, changes ...func(*corev1.Pod)) *corev1.Pod {
			p = p.DeepCopy()
			for _, change := range changes {
				change(p)
			}
			return c.pods.Put(p)
		}
		p := put(podOf(j, "a", corev1.PodRunning))
		expect("a pod", later, "")
		put(p)
		expect("a changed pod", later, "")
		moved := put(p, func(p *corev1.Pod) {
			p.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(other, batchv1.SchemeGroupVersion.WithKind("Job"))}
		})
		expect("one that has another job", "ns/other+1s "+later, "")
		free := put(moved, func(p *corev1.Pod) { p.OwnerReferences = nil })
		expect("one that has none", "ns/other+1s "+later, "ns/a")
		put(free)
		expect("one that still has none", "", "ns/a")
		put(free, func(p *corev1.Pod) { p.Labels = map[string]string{"app": "other"} })
		expect("one with other labels", "ns/other+1s", "ns/a")
		going := put(podOf(j, "b", corev1.PodRunning), func(p *corev1.Pod) { p.DeletionTimestamp = new(metav1.Now()) })
		expect("one that is going", later, "")
		put(going)
		expect("one that is still going", later, "")
		c.pods.Delete("ns", "b")
		expect("one that is gone", later, "")
		bare := put(podOf(j, "c", corev1.PodRunning), func(p *corev1.Pod) { p.Finalizers = nil })
		expect("one that is not counted", later, "")
		put(podOf(j, "d", corev1.PodRunning))
		expect("one more", later, "")
		c.jobs.Put(stored(1, func(j *batchv1.Job) {
			j.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobComplete, Status: "True"}}
		}))
		expect("a job that has ended", "", "ns/d")
		put(bare, func(p *corev1.Pod) { p.DeletionTimestamp = new(metav1.Now()) })
		expect("one of an ended job that is going", "", "")
		c.jobs.Delete("ns", "work")
		expect("no job", "ns/work", "ns/d")
		if got := slices.Compact(c.events.Take()); len(got) > 0 {
			t.Errorf("events %q", got)
		}
	})
}
