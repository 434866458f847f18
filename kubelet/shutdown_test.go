package kubelet_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/cri/simulated"
	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/kubelet"
	"github.com/keelson-dev/keelson/kubelet/shutdown"
)

// script is an inhibitor that a test drives.
type script struct{ events chan bool }

func (s script) Open(context.Context, time.Duration) (shutdown.Session, error) { return s, nil }
func (s script) Hold(bool) error                                               { return nil }
func (s script) Close()                                                        {}
func (s script) Next(ctx context.Context) (bool, error) {
	select {
	case down := <-s.events:
		return down, nil
	case <-ctx.Done():
		return false, ctx.Err()
	}
}

// ending lets a shutdown end a kubelet's pods.
type ending struct{ *kubelet.Kubelet }

func (e ending) End(ctx context.Context, pod *corev1.Pod, grace int64, why corev1.PodCondition) error {
	return e.Evict(ctx, pod.UID, kubelet.Eviction{Reason: shutdown.Reason, Message: shutdown.Message, Grace: grace, Condition: &why})
}

// TestGracefulShutdown: before the machine goes down, the node is not ready, its pods fail within their time, and it
// takes no new ones.
func TestGracefulShutdown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		rt := simulated.New(simulated.Options{Program: func(simulated.Process) simulated.Program { return simulated.Program{IgnoresStop: true} }})
		pods, nodes := informer.New(w.pods, informer.Options{}), informer.New(w.nodes, informer.Options{})
		var manager *shutdown.Manager
		k, err := kubelet.New(kubelet.Sources{Pods: pods, Nodes: nodes}, w, rt, w, kubelet.Options{NodeName: "n1", Host: kubelet.Host{
			Problem: func() error { return manager.Problem() },
			Admitters: []kubelet.Admitter{kubelet.AdmitFunc(func(*corev1.Pod) *kubelet.Refusal {
				if manager.Problem() == nil {
					return nil
				}
				return &kubelet.Refusal{Reason: shutdown.RejectedReason, Message: shutdown.RejectedMessage}
			})},
		}})
		if err != nil {
			t.Fatal(err)
		}
		machine := script{make(chan bool)}
		manager, err = shutdown.New(ending{k}, machine, shutdown.Groups(10*time.Second, 0), shutdown.Options{Changed: k.Report})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		var group sync.WaitGroup
		for _, run := range []func(context.Context) error{pods.Run, nodes.Run, k.Run, manager.Run} {
			group.Go(func() { _ = run(ctx) })
		}
		n := &node{world: w, runtime: rt}
		n.after(time.Second)
		n.pods.Put(newPod("web"))
		n.after(time.Second)
		ready := func() string {
			node, _ := w.nodes.Get("", "n1")
			for _, c := range node.Status.Conditions {
				if c.Type == corev1.NodeReady {
					return string(c.Status) + " " + c.Message
				}
			}
			return ""
		}
		machine.events <- true
		n.after(time.Second)
		if got := ready(); got != "False node is shutting down" {
			t.Errorf("the node is %s", got)
		}
		n.pods.Put(newPod("late"))
		n.after(14 * time.Second)
		status := n.pod("web").Status
		if status.Phase != corev1.PodFailed || status.Reason != "Terminated" || status.Message != "Pod was terminated in response to imminent node shutdown." {
			t.Errorf("the pod is %s, %s: %s", status.Phase, status.Reason, status.Message)
		}
		if c := status.Conditions[0]; c.Type != corev1.DisruptionTarget || c.Reason != "TerminationByKubelet" {
			t.Errorf("the conditions are %v", status.Conditions)
		}
		if ended := status.ContainerStatuses[0].State.Terminated; ended == nil || ended.FinishedAt.Sub(w.start) != 12*time.Second {
			t.Errorf("the container is %v", status.ContainerStatuses[0].State)
		}
		if status := n.pod("late").Status; status.Phase != corev1.PodFailed || status.Reason != "NodeShutdown" || status.Message != "Pod was rejected: Pod was rejected as the node is shutting down." {
			t.Errorf("the late pod is %s, %s: %s", status.Phase, status.Reason, status.Message)
		}
		machine.events <- false
		n.after(time.Second)
		if got := ready(); got != "True kubelet is posting ready status" {
			t.Errorf("the node is %s", got)
		}
		cancel()
		group.Wait()
		rt.Close()
	})
}
