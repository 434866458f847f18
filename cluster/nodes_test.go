package cluster_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/cri"
)

// TestNodeRestart: a restarted kubelet finds its containers unchanged, and handles what was requested in the meantime.
func TestNodeRestart(t *testing.T) {
	inBubble(t, nodes(1), func(t *testing.T, w *world) {
		w.create(deploymentOf("web", 2))
		time.Sleep(10 * time.Second)
		before := w.running("web", 2, "")
		node, err := w.c.Node("node-0")
		w.check(err)
		for range 3 {
			node.Stop()
			node.Stop()
			node.Start()
			node.Start()
		}
		time.Sleep(30 * time.Second)
		for i, p := range w.running("web", 2, "") {
			got, had := p.Status.ContainerStatuses[0], before[i].Status.ContainerStatuses[0]
			if p.UID != before[i].UID || got.ContainerID != had.ContainerID || got.RestartCount != 0 {
				t.Errorf("%s had %s and has %s after %d restarts", p.Name, had.ContainerID, got.ContainerID, got.RestartCount)
			}
		}

		node.Stop()
		w.check(w.pods.Delete(w.ctx, before[0].Name, metav1.DeleteOptions{}))
		_, err = w.pods.Create(w.ctx, testPod("late"), metav1.CreateOptions{})
		w.check(err)
		time.Sleep(20 * time.Second)
		if p, err := w.pods.Get(w.ctx, before[0].Name, metav1.GetOptions{}); err != nil || p.DeletionTimestamp == nil {
			t.Errorf("a pod of a silent node: %v", err)
		}
		if p, err := w.pods.Get(w.ctx, "late", metav1.GetOptions{}); err != nil || p.Status.Phase != corev1.PodPending || p.Spec.NodeName != "node-0" {
			t.Errorf("a pod for a silent node: %+v %v", p.Status, err)
		}
		node.Start()
		time.Sleep(10 * time.Second)
		w.running("web", 2, "")
		if p, err := w.pods.Get(w.ctx, "late", metav1.GetOptions{}); err != nil || !available(p) {
			t.Errorf("after it came back: %+v %v", p.Status, err)
		}
	})
}

// TestExit ends one container from outside, like a crash.
func TestExit(t *testing.T) {
	inBubble(t, nodes(1), func(t *testing.T, w *world) {
		_, err := w.pods.Create(w.ctx, testPod("web"), metav1.CreateOptions{})
		w.check(err)
		time.Sleep(10 * time.Second)
		node, err := w.c.Node("node-0")
		w.check(err)
		containers, err := node.Runtime().ListContainers(w.ctx, cri.Filter{})
		w.check(err)
		w.check(node.Runtime().Exit(containers[0].ID, 137))
		time.Sleep(10 * time.Second)
		pod, err := w.pods.Get(w.ctx, "web", metav1.GetOptions{})
		w.check(err)
		status := pod.Status.ContainerStatuses[0]
		if status.RestartCount != 1 || status.State.Running == nil || status.LastTerminationState.Terminated.ExitCode != 137 {
			t.Errorf("status is %+v", status)
		}
	})
}
