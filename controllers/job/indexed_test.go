package job_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/controllers/job"
)

// name is that of the one active pod with an index.
func (b *bench) index(i int) string {
	b.Helper()
	for _, pod := range b.list() {
		if pod.Annotations[batchv1.JobCompletionIndexAnnotation] == fmt.Sprint(i) && pod.Status.Phase != corev1.PodFailed && pod.Status.Phase != corev1.PodSucceeded && pod.DeletionTimestamp == nil {
			return pod.Name
		}
	}
	b.Fatalf("no pod of index %d", i)
	return ""
}

// indexes are those of the active pods.
func (b *bench) indexes() string {
	var all []string
	for _, pod := range b.list() {
		if slices.Contains(b.running(), pod.Name) {
			all = append(all, pod.Annotations[batchv1.JobCompletionIndexAnnotation])
		}
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}

func TestIndexed(t *testing.T) {
	inBubble(t, func(b *bench) {
		j := indexedJob(4)
		j.Spec.Parallelism = new(int32(2))
		j.Spec.Template.Spec.Containers = []corev1.Container{
			{Name: "c", Image: "x"}, {Name: "d", Image: "x", Env: []corev1.EnvVar{{Name: "JOB_COMPLETION_INDEX", Value: "mine"}}},
		}
		j.Spec.Template.Spec.InitContainers = []corev1.Container{{Name: "i", Image: "x"}}
		b.start(j)
		b.wantEvents(created+"work-0-00001", created+"work-1-00002")
		pod := b.list()[1]
		env := func(c corev1.Container) string {
			if v := c.Env[0]; v.ValueFrom != nil {
				return v.Name + "=" + v.ValueFrom.FieldRef.FieldPath
			}
			return c.Env[0].Value
		}
		const path = "JOB_COMPLETION_INDEX=metadata.labels['batch.kubernetes.io/job-completion-index']"
		if pod.Spec.Hostname != "work-1" || pod.Labels["batch.kubernetes.io/job-completion-index"] != "1" || pod.Annotations["batch.kubernetes.io/job-completion-index"] != "1" ||
			env(pod.Spec.Containers[0]) != path || env(pod.Spec.InitContainers[0]) != path || env(pod.Spec.Containers[1]) != "mine" || len(pod.Annotations) != 1 {
			t.Errorf("created %+v", pod)
		}
		b.succeed(b.index(1))
		b.wantStatus("active 2 ready 0 terminating 0 succeeded 1 failed 0 completed 1")
		if got := b.indexes(); got != "0 2" {
			t.Errorf("running %s", got)
		}
		b.fail(b.index(0))
		b.wantStatus("active 1 ready 0 terminating 0 succeeded 1 failed 1 completed 1")
		b.after(10 * time.Second)
		if got := b.indexes(); got != "0 2" {
			t.Errorf("running %s after a failure", got)
		}
		b.succeed(b.index(0), b.index(2))
		b.wantStatus("active 1 ready 0 terminating 0 succeeded 3 failed 1 completed 0-2")
		b.succeed(b.index(3))
		b.wantStatus("active 0 ready 0 terminating 0 succeeded 4 failed 1 completed 0-3 SuccessCriteriaMet(CompletionsReached) Complete(CompletionsReached)")
		b.wantTracked()
	})
}

// TestElastic: indexed jobs grow and shrink; what has been completed beyond the end does not count any more.
func TestElastic(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.start(indexedJob(4))
		b.succeed(b.index(3))
		b.wantStatus("active 3 ready 0 terminating 0 succeeded 1 failed 0 completed 3")
		b.spec(func(s *batchv1.JobSpec) { s.Completions, s.Parallelism = new(int32(2)), new(int32(2)) })
		b.settle()
		b.wantStatus("active 2 ready 0 terminating 0 succeeded 0 failed 0")
		if got := b.indexes(); got != "0 1" {
			t.Errorf("running %s", got)
		}
		b.spec(func(s *batchv1.JobSpec) { s.Completions, s.Parallelism = new(int32(3)), new(int32(3)) })
		b.settle()
		if got := b.indexes(); got != "0 1 2" {
			t.Errorf("running %s", got)
		}
	})
}

// TestDuplicates: of pods that share an index the best one stays; those without a valid one go.
func TestDuplicates(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.start(indexedJob(2))
		b.settle()
		b.events.Take()
		ours := b.list()[0]
		twin := func(name, index string) {
			pod := &corev1.Pod{}
			pod.Name, pod.Namespace, pod.Labels, pod.OwnerReferences = name, "ns", ours.Labels, ours.OwnerReferences
			pod.Finalizers, pod.Annotations = ours.Finalizers, map[string]string{"batch.kubernetes.io/job-completion-index": index}
			create(b, pod)
		}
		twin("ready", "0")
		twin("without", "x")
		twin("beyond", "2")
		b.phase("ready", corev1.PodRunning, 0)
		b.after(time.Minute)
		b.wantEvents(deleted+"work-0-00001", deleted+"without", deleted+"beyond")
		b.wantStatus("active 2 ready 1 terminating 0 succeeded 0 failed 0")
	})
}

// TestBeyond: what a pod with an index that the job does not have did, does not count.
func TestBeyond(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.start(indexedJob(2))
		b.settle()
		ours := b.list()[0]
		for _, index := range []string{"7", "x"} {
			pod := &corev1.Pod{}
			pod.Name, pod.Namespace, pod.Labels, pod.OwnerReferences = "beyond-"+index, "ns", ours.Labels, ours.OwnerReferences
			pod.Finalizers, pod.Annotations = ours.Finalizers, map[string]string{"batch.kubernetes.io/job-completion-index": index}
			pod.Status.Phase = corev1.PodSucceeded
			create(b, pod)
		}
		b.after(time.Minute)
		b.wantStatus("active 2 ready 0 terminating 0 succeeded 0 failed 0")
		b.wantTracked(b.index(0), b.index(1))
	})
}

// TestPerIndex: each index has a limit and a back-off of its own.
func TestPerIndex(t *testing.T) {
	inBubble(t, func(b *bench) {
		j := indexedJob(2)
		j.Spec.BackoffLimitPerIndex = new(int32(1))
		b.start(j)
		counts := func(i int) string {
			b.Helper()
			for _, pod := range b.list() {
				if pod.Name == b.index(i) {
					return pod.Annotations["batch.kubernetes.io/job-index-failure-count"] + "/" + pod.Annotations["batch.kubernetes.io/job-index-ignored-failure-count"]
				}
			}
			return ""
		}
		if got := counts(0); got != "0/" {
			t.Errorf("the first pod has failures %s", got)
		}
		first := b.index(0)
		b.fail(first)
		b.wantStatus("active 1 ready 0 terminating 0 succeeded 0 failed 0 lost ")
		b.wantTracked(first, b.index(1)) // its replacement takes over the count
		b.after(10 * time.Second)
		if got := counts(0); got != "1/" {
			t.Errorf("the second pod has failures %s", got)
		}
		b.wantStatus("active 2 ready 0 terminating 0 succeeded 0 failed 1 lost ")
		b.wantTracked(b.index(0), b.index(1))
		b.fail(b.index(0))
		b.after(time.Hour)
		b.wantStatus("active 1 ready 0 terminating 0 succeeded 0 failed 2 lost 0")
		b.events.Take()
		b.succeed(b.index(1))
		b.wantStatus("active 0 ready 0 terminating 0 succeeded 1 failed 2 completed 1 lost 0 FailureTarget(FailedIndexes) Failed(FailedIndexes)")
		b.wantEvents("Warning FailedIndexes Job has failed indexes")
		b.wantTracked()
	})
}

func TestMaxFailedIndexes(t *testing.T) {
	inBubble(t, func(b *bench) {
		j := indexedJob(5)
		j.Spec.BackoffLimitPerIndex, j.Spec.MaxFailedIndexes = new(int32(0)), new(int32(1))
		b.start(j)
		b.fail(b.index(3))
		b.wantStatus("active 4 ready 0 terminating 0 succeeded 0 failed 1 lost 3")
		b.fail(b.index(1))
		b.wantStatus("active 0 ready 0 terminating 0 succeeded 0 failed 5 lost 1,3 FailureTarget(MaxFailedIndexesExceeded) Failed(MaxFailedIndexesExceeded)")
		for _, e := range b.events.Take() {
			if strings.HasPrefix(e, "Warning") && e != "Warning MaxFailedIndexesExceeded Job has exceeded the specified maximal number of failed indexes" {
				t.Error(e)
			}
		}
	})
}

// TestPerIndexTwice: a pod that fails twice waits twice as long.
func TestPerIndexTwice(t *testing.T) {
	inBubble(t, func(b *bench) {
		j := indexedJob(1)
		j.Spec.BackoffLimitPerIndex = new(int32(5))
		b.start(j)
		b.fail(b.index(0))
		b.after(15 * time.Second)
		b.phase(b.index(0), corev1.PodFailed, 1)
		b.after(17 * time.Second)
		if got := b.running(); len(got) != 0 {
			t.Errorf("running %v", got)
		}
		b.after(6 * time.Second)
		if got := b.running(); len(got) != 1 {
			t.Errorf("running %v", got)
		}
	})
}

func TestSuccessPolicy(t *testing.T) {
	inBubble(t, func(b *bench) {
		j := indexedJob(4)
		j.Spec.SuccessPolicy = &batchv1.SuccessPolicy{Rules: []batchv1.SuccessPolicyRule{
			{SucceededCount: new(int32(3))}, {SucceededIndexes: new("1-2"), SucceededCount: new(int32(1))},
		}}
		b.start(j)
		b.succeed(b.index(0))
		b.wantStatus("active 3 ready 0 terminating 0 succeeded 1 failed 0 completed 0")
		b.events.Take()
		names := []string{b.index(1), b.index(3)}
		b.succeed(b.index(2))
		b.wantStatus("active 0 ready 0 terminating 0 succeeded 2 failed 0 completed 0,2 SuccessCriteriaMet(SuccessPolicy) Complete(SuccessPolicy)")
		b.wantEvents(deleted+names[0], deleted+names[1], completed)
		b.wantTracked()
		if m := b.job().Status.Conditions[1].Message; m != "Matched rules at index 1" {
			t.Errorf("complete since %q", m)
		}
	})
}

// TestFailurePolicy: rules decide whether a failure counts, ends the job, or ends an index.
func TestFailurePolicy(t *testing.T) {
	policy := func(action batchv1.PodFailurePolicyAction) *batchv1.PodFailurePolicy {
		return &batchv1.PodFailurePolicy{Rules: []batchv1.PodFailurePolicyRule{{
			Action: action, OnExitCodes: &batchv1.PodFailurePolicyOnExitCodesRequirement{Operator: "In", Values: []int32{42}},
		}}}
	}
	inBubble(t, func(b *bench) {
		j := newJob(2)
		j.Spec.PodFailurePolicy = policy(batchv1.PodFailurePolicyActionFailJob)
		b.start(j)
		b.phase("work-00001", corev1.PodFailed, 42)
		b.settle()
		const why = "Container main for pod ns/work-00001 failed with exit code 42 matching FailJob rule at index 0"
		b.wantStatus("active 0 ready 0 terminating 0 succeeded 0 failed 2 FailureTarget(PodFailurePolicy) Failed(PodFailurePolicy)")
		b.wantEvents(created+"work-00001", created+"work-00002", deleted+"work-00002", "Warning PodFailurePolicy "+why)
	})
	inBubble(t, func(b *bench) {
		j := newJob(1)
		j.Spec.BackoffLimit, j.Spec.PodFailurePolicy = new(int32(0)), policy(batchv1.PodFailurePolicyActionIgnore)
		b.start(j)
		b.phase("work-00001", corev1.PodFailed, 42)
		b.after(20 * time.Second)
		b.wantStatus("active 1 ready 0 terminating 0 succeeded 0 failed 0")
		b.fail("work-00002")
		b.wantStatus("active 0 ready 0 terminating 0 succeeded 0 failed 1 FailureTarget(BackoffLimitExceeded) Failed(BackoffLimitExceeded)")
	})
	inBubble(t, func(b *bench) {
		j := indexedJob(3)
		j.Spec.BackoffLimitPerIndex, j.Spec.PodFailurePolicy = new(int32(5)), policy(batchv1.PodFailurePolicyActionFailIndex)
		b.start(j)
		b.phase(b.index(1), corev1.PodFailed, 42)
		b.phase(b.index(2), corev1.PodFailed, 1)
		b.after(20 * time.Second)
		b.wantStatus("active 2 ready 0 terminating 0 succeeded 0 failed 2 lost 1")
		if got := b.indexes(); got != "0 2" {
			t.Errorf("running %s", got)
		}
	})
	inBubble(t, func(b *bench) {
		j := indexedJob(1)
		j.Spec.BackoffLimitPerIndex, j.Spec.PodFailurePolicy = new(int32(0)), policy(batchv1.PodFailurePolicyActionIgnore)
		b.start(j)
		for range 2 {
			b.phase(b.index(0), corev1.PodFailed, 42)
			b.after(time.Minute)
		}
		b.wantStatus("active 1 ready 0 terminating 0 succeeded 0 failed 0 lost ")
		for _, pod := range b.list() {
			if pod.Name == b.index(0) && (pod.Annotations["batch.kubernetes.io/job-index-ignored-failure-count"] != "2" || pod.Annotations["batch.kubernetes.io/job-index-failure-count"] != "0") {
				t.Errorf("annotations %v", pod.Annotations)
			}
		}
	})
}

func TestPrefix(t *testing.T) {
	long := strings.Repeat("a", 60)
	for name, want := range map[string]string{"a": "a-12-", long[:54]: long[:54] + "-12-", long[:55]: long[:54] + "-12-", long: long[:54] + "-12-"} {
		if got := job.Prefix(name, 12); got != want {
			t.Errorf("%s: %s", name, got)
		}
	}
}
