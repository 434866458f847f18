package job_test

import (
	"fmt"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/controllers"
)

// TestNothingIsKept: memory is bounded by the jobs that have not finished, and the pods that are there.
func TestNothingIsKept(t *testing.T) {
	inBubble(t, func(b *bench) {
		kept := func(when, want string) {
			b.Helper()
			if got := fmt.Sprint(b.controller.Kept()); got != want {
				b.Errorf("%s: %s, want %s", when, got, want)
			}
		}
		b.start(newJob(1))
		b.fail(b.running()...)
		b.after(time.Minute)
		kept("after a failure", "map[expected:1 records:1]")
		b.succeed(b.running()...)
		b.after(time.Minute)
		kept("when it has finished", "map[expected:1 pods:1]")
		b.remove(at(), new(metav1.DeletePropagationBackground))
		b.after(time.Minute)
		kept("when it is gone", "map[pods:1]")
		for _, pod := range b.list() {
			b.remove(podAt(pod.Name), nil)
		}
		b.after(time.Minute)
		kept("when its pods are gone", "map[]")
	})
}

// TestForgotten: what a reconciliation leaves behind that began before the job went or finished is forgotten by the next one.
func TestForgotten(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.start(newJob(1))
		b.succeed(b.running()...)
		for _, c := range []struct {
			job  *batchv1.Job
			want string
		}{
			{b.job(), "map[expected:1 pods:1]"},
			{&batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "gone", Namespace: "ns"}}, "map[expected:1 pods:1]"}, // of the other
		} {
			b.controller.Remember(c.job)
			if _, err := b.controller.Reconcile(b.Context(), controllers.KeyOf(c.job)); err != nil {
				b.Fatal(err)
			}
			if got := fmt.Sprint(b.controller.Kept()); got != c.want {
				b.Errorf("%s: %s, want %s", c.job.Name, got, c.want)
			}
		}
	})
}
