package cluster_test

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/cluster"
	"github.com/keelson-dev/keelson/cri/simulated"
)

// jobOf is a job of n indexes that lives for a minute after it has ended.
func jobOf(name string, n int32) *batchv1.Job {
	return &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: batchv1.JobSpec{
			Completions: &n, Parallelism: &n, CompletionMode: new(batchv1.IndexedCompletion), TTLSecondsAfterFinished: new(int32(60)),
			Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
				RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "c", Image: "i"}},
			}},
		},
	}
}

// ending returns nodes whose containers end after two seconds; the first of the index 1 fails later, and is replaced after
// ten seconds.
func ending() cluster.Options {
	var failed atomic.Bool
	return cluster.Options{Nodes: cluster.Nodes{Count: 1, Runtime: func(string) simulated.Options {
		return simulated.Options{Program: func(p simulated.Process) simulated.Program {
			end := simulated.Program{Exits: true, After: 2 * time.Second}
			if strings.HasPrefix(p.Pod.Name, "work-1-") && failed.CompareAndSwap(false, true) {
				end.ExitCode, end.After = 3, 4*time.Second
			}
			return end
		}}
	}}}
}

// TestJob runs a job from its creation to its deletion, with every component under its own user.
func TestJob(t *testing.T) {
	seen := newWitness()
	inBubble(t, seen.options(ending()), func(t *testing.T, w *world) {
		jobs := w.cs.BatchV1().Jobs("default")
		_, err := jobs.Create(w.ctx, jobOf("work", 3), metav1.CreateOptions{})
		w.check(err)
		time.Sleep(8 * time.Second)
		j, err := jobs.Get(w.ctx, "work", metav1.GetOptions{})
		w.check(err)
		if s := j.Status; s.CompletedIndexes != "0,2" || s.Failed != 1 {
			t.Errorf("after a failure %+v", s)
		}
		time.Sleep(22 * time.Second)
		j, err = jobs.Get(w.ctx, "work", metav1.GetOptions{})
		w.check(err)
		if s := j.Status; s.CompletedIndexes != "0-2" || s.Succeeded != 3 || s.Failed != 1 || s.Active != 0 || s.CompletionTime == nil {
			t.Errorf("in the end %+v", s)
		}
		pods, err := w.pods.List(w.ctx, metav1.ListOptions{LabelSelector: "batch.kubernetes.io/job-name=work"})
		w.check(err)
		var phases []string
		for _, p := range pods.Items {
			phases = append(phases, fmt.Sprint(p.Status.Phase, p.Finalizers))
		}
		if slices.Sort(phases); !slices.Equal(phases, []string{"Failed[]", "Succeeded[]", "Succeeded[]", "Succeeded[]"}) {
			t.Errorf("pods %v", phases)
		}
		events, err := w.cs.CoreV1().Events("default").List(w.ctx, metav1.ListOptions{FieldSelector: "involvedObject.kind=Job"})
		w.check(err)
		reasons := map[string]int{}
		for _, e := range events.Items {
			reasons[e.Source.Component+" "+e.Reason]++
		}
		if len(reasons) != 2 || reasons["job-controller SuccessfulCreate"] != 4 || reasons["job-controller Completed"] != 1 {
			t.Errorf("events %v", reasons)
		}
		time.Sleep(2 * time.Minute)
		if _, err := jobs.Get(w.ctx, "work", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("it outlived its time: %v", err)
		}
		if pods, err = w.pods.List(w.ctx, metav1.ListOptions{}); err != nil || len(pods.Items) > 0 {
			t.Errorf("left are %d pods, %v", len(pods.Items), err)
		}
		for _, bad := range seen.violations(t, w.c) {
			t.Error(bad)
		}
	})
}

// TestOrphanedPods: a job that is deleted without saying how leaves its pods.
func TestOrphanedPods(t *testing.T) {
	inBubble(t, ending(), func(t *testing.T, w *world) {
		jobs := w.cs.BatchV1().Jobs("default")
		_, err := jobs.Create(w.ctx, jobOf("work", 2), metav1.CreateOptions{})
		w.check(err)
		time.Sleep(time.Second)
		w.check(jobs.Delete(w.ctx, "work", metav1.DeleteOptions{}))
		time.Sleep(time.Minute)
		pods, err := w.pods.List(w.ctx, metav1.ListOptions{})
		w.check(err)
		for _, p := range pods.Items {
			if len(p.OwnerReferences)+len(p.Finalizers) > 0 {
				t.Errorf("%s is owned by %v, and held by %v", p.Name, p.OwnerReferences, p.Finalizers)
			}
		}
		if _, err := jobs.Get(w.ctx, "work", metav1.GetOptions{}); !apierrors.IsNotFound(err) || len(pods.Items) != 2 {
			t.Errorf("left are %d pods, and the job: %v", len(pods.Items), err)
		}
	})
}
