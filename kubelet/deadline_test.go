package kubelet_test

import (
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/cri/simulated"
	"github.com/keelson-dev/keelson/kubelet"
)

// TestDeadlineCountsFromTheStart: the deadline counts from the pod's first start, even under an earlier kubelet, and
// not from its creation.
func TestDeadlineCountsFromTheStart(t *testing.T) {
	limited := func(seconds int64) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Spec.ActiveDeadlineSeconds = &seconds }
	}
	old := func(p *corev1.Pod) { p.CreationTimestamp = metav1.NewTime(time.Now().Add(-time.Hour)) }
	simulate(t, simulated.Options{}, kubelet.Options{}, func(n *node) {
		n.pods.Put(newPod("web", limited(60), old))
		n.after(2 * time.Minute)
		n.expectStatuses("0s web Running Ready main=running", "60s web Failed (DeadlineExceeded) main=Completed(0)")
	})
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		rt := simulated.New(simulated.Options{})
		defer rt.Close()
		n := w.run(rt, kubelet.Options{})
		w.pods.Put(newPod("web", limited(60), old))
		n.after(30 * time.Second)
		n.stop()
		n = w.run(rt, kubelet.Options{})
		n.after(2 * time.Minute)
		w.expectStatuses("0s web Running Ready main=running", "60s web Failed (DeadlineExceeded) main=Completed(0)")
		n.stop()
	})
}

// TestDeadlineOfWhatHasEnded: the outcome of a pod does not change during its cleanup.
func TestDeadlineOfWhatHasEnded(t *testing.T) {
	rt := simulated.Options{Program: func(simulated.Process) simulated.Program {
		return simulated.Program{Exits: true, After: 5 * time.Second}
	}}
	withEstate(t, rt, func(n *node, e *estate) {
		e.set(func(e *estate) { e.busy = map[string]time.Duration{"volumes": 20 * time.Second} })
		n.pods.Put(newPod("web", func(p *corev1.Pod) {
			p.Spec.RestartPolicy = corev1.RestartPolicyNever
			p.Spec.ActiveDeadlineSeconds = new(int64(10))
		}))
		n.after(time.Minute)
		n.expectStatuses("0s web Running Ready main=running", "5.02s web Running main=Completed(0)", "20s web Succeeded main=Completed(0)")
		n.expectEventsAbout("DeadlineExceeded")
	})
}
