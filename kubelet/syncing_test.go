package kubelet_test

import (
	"errors"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/cri/simulated"
	"github.com/keelson-dev/keelson/kubelet"
)

// TestListThatFails: what the runtime says when it is asked about a pod is an event, and the pod goes on when that is over.
func TestListThatFails(t *testing.T) {
	var broken atomic.Bool
	rt := simulated.Options{Behave: func(op simulated.Operation) simulated.Outcome {
		if broken.Load() && op.Verb == simulated.List {
			return simulated.Outcome{Err: errors.New("disk on fire")}
		}
		return simulated.Outcome{}
	}}
	simulate(t, rt, kubelet.Options{}, func(n *node) {
		n.after(5 * time.Second)
		broken.Store(true)
		n.pods.Put(newPod("web"))
		n.after(5 * time.Second)
		n.expectEventsAbout("FailedSync", "5s web Warning FailedSync: error determining status: disk on fire")
		broken.Store(false)
		n.after(time.Minute)
		if status := n.pod("web").Status; status.Phase != corev1.PodRunning {
			t.Errorf("the pod is %s", status.Phase)
		}
	})
}
