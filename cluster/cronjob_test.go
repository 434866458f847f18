package cluster_test

import (
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// cronJob makes a CronJob that keeps no finished jobs.
func (w *world) cronJob(name, schedule string) {
	w.t.Helper()
	none := int32(0)
	_, err := w.cs.BatchV1().CronJobs("default").Create(w.ctx, &batchv1.CronJob{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: batchv1.CronJobSpec{
			Schedule: schedule, SuccessfulJobsHistoryLimit: &none, ConcurrencyPolicy: batchv1.ReplaceConcurrent,
			JobTemplate: batchv1.JobTemplateSpec{Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
				RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "main", Image: "busybox"}},
			}}}},
		},
	}, metav1.CreateOptions{})
	w.check(err)
}

func (w *world) jobs() []batchv1.Job {
	w.t.Helper()
	l, err := w.cs.BatchV1().Jobs("default").List(w.ctx, metav1.ListOptions{})
	w.check(err)
	return l.Items
}

// TestCronJobs: a CronJob starts a job each hour, replaces the one before, and takes them with it; nothing is refused to the
// controller.
func TestCronJobs(t *testing.T) {
	seen := newWitness()
	inBubble(t, seen.options(nodes(0)), func(t *testing.T, w *world) {
		w.cronJob("tick", "@every 1h")
		for range 3 {
			time.Sleep(time.Hour + time.Minute)
			jobs := w.jobs()
			if len(jobs) != 1 || jobs[0].OwnerReferences[0].Name != "tick" {
				t.Fatalf("jobs %v", jobs)
			}
			cj, err := w.cs.BatchV1().CronJobs("default").Get(w.ctx, "tick", metav1.GetOptions{})
			w.check(err)
			if len(cj.Status.Active) != 1 || cj.Status.Active[0].UID != jobs[0].UID {
				t.Errorf("active %v, but there is %s", cj.Status.Active, jobs[0].Name)
			}
		}
		background := metav1.DeletePropagationBackground
		w.check(w.cs.BatchV1().CronJobs("default").Delete(w.ctx, "tick", metav1.DeleteOptions{PropagationPolicy: &background}))
		time.Sleep(time.Minute)
		if jobs := w.jobs(); len(jobs) > 0 {
			t.Errorf("left behind: %v", jobs)
		}
		if !seen.wrote("system:serviceaccount:kube-system:cronjob-controller") {
			t.Error("the controller did not act as itself")
		}
		for _, bad := range seen.violations(t, w.c) {
			t.Error(bad)
		}
	})
}
