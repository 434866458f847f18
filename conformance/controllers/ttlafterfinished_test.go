package controllers_test

import (
	"context"
	"fmt"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kubernetes/pkg/controller/ttlafterfinished"
)

// TestTTLAfterFinished: jobs that go some time after they have ended, or a changed time.
func TestTTLAfterFinished(t *testing.T) {
	c := &contest{
		names: []string{"ttl-after-finished-controller"},
		theirs: func(ctx context.Context, u *theirs) (func(context.Context), error) {
			c := ttlafterfinished.New(ctx, u.shared.Batch().V1().Jobs(), u.client("ttl-after-finished-controller"))
			return func(ctx context.Context) { c.Run(ctx, 5) }, nil
		},
		step: func(w *world) {
			jobs := w.jobs()
			switch n := w.IntN(10); {
			case n < 3 && len(jobs) < 6, len(jobs) == 0:
				j := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: w.next("job")}, Spec: batchv1.JobSpec{Template: w.template(nil)}}
				j.Spec.Template.Spec.RestartPolicy = corev1.RestartPolicyNever
				if !w.chance(4) {
					j.Spec.TTLSecondsAfterFinished = new(int32(w.IntN(100)))
				}
				_, err := w.api.BatchV1().Jobs(namespace).Create(w.Context(), j, metav1.CreateOptions{})
				w.do(fmt.Sprint("create ", j.Name, " ", text(j.Spec.TTLSecondsAfterFinished)), err)
			case n < 6:
				j := pick(w, jobs...)
				j.Spec.TTLSecondsAfterFinished = pick(w, nil, new(int32(w.IntN(100))), new(int32(w.IntN(1000))))
				_, err := w.api.BatchV1().Jobs(namespace).Update(w.Context(), &j, metav1.UpdateOptions{})
				w.do(fmt.Sprint("update ", j.Name, " ", text(j.Spec.TTLSecondsAfterFinished)), err)
			default:
				w.jobController()
			}
		},
		written: resources(batchv1.SchemeGroupVersion, "jobs"),
		pauses:  []int{5, 20, 50, 200},
	}
	c.run(t)
}

// jobController lets some jobs begin that have not, and others end.
func (w *world) jobController() {
	w.Helper()
	for _, j := range w.jobs() {
		if j.DeletionTimestamp != nil || j.Status.CompletionTime != nil || len(j.Status.Conditions) > 0 || w.chance(3) {
			continue
		}
		now := metav1.Now()
		set := func(kind batchv1.JobConditionType) {
			j.Status.Conditions = append(j.Status.Conditions, batchv1.JobCondition{
				Type: kind, Status: corev1.ConditionTrue, Reason: "Test", LastTransitionTime: now, LastProbeTime: now,
			})
		}
		what := "start"
		switch {
		case j.Status.StartTime == nil:
			j.Status.StartTime, j.Status.Active = &now, 1
		case w.chance(3):
			what = "fail"
			j.Status.Active, j.Status.Failed = 0, 1
			set(batchv1.JobFailureTarget)
			set(batchv1.JobFailed)
		default:
			what = "complete"
			j.Status.Active, j.Status.Succeeded, j.Status.CompletionTime = 0, 1, &now
			set(batchv1.JobSuccessCriteriaMet)
			set(batchv1.JobComplete)
		}
		_, err := w.api.BatchV1().Jobs(namespace).UpdateStatus(w.Context(), &j, metav1.UpdateOptions{})
		w.do(what+" "+j.Name, err)
	}
}
