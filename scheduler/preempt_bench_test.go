package scheduler_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/scheduler"
	"github.com/keelson-dev/keelson/scheduler/plugins"
)

// BenchmarkPreempt preempts on nodes that are full of pods of a low priority: pod by pod, each nominated, while the victims
// of the former still terminate. "attempt" includes the refusal by all nodes.
func BenchmarkPreempt(b *testing.B) {
	for _, size := range []struct{ nodes, pods int }{{500, 4}, {5000, 4}, {5000, 30}} {
		b.Run(fmt.Sprintf("nodes=%d/pods=%d", size.nodes, size.pods), func(b *testing.B) {
			profile := defaults()
			state := fullState(size.nodes, size.pods)
			planner := scheduler.NewPlanner(&profile)
			n := 0
			for b.Loop() {
				if n++; n%(size.nodes/4) == 0 {
					b.StopTimer()
					state = fullState(size.nodes, size.pods)
					b.StartTimer()
				}
				preemptNext(b, planner, &state, n)
			}
		})
	}
}

// fullState returns nodes that are full of pods of priority 0.
func fullState(nodes, pods int) (state scheduler.State) {
	for i := range nodes {
		name := fmt.Sprintf("node-%04d", i)
		state.SetNode(node(name, fmt.Sprint(pods), "100Gi"))
		for j := range pods {
			p := on(pod(fmt.Sprintf("low-%d-%d", i, j), "1", "1Gi"), name)
			p.Status.StartTime = &metav1.Time{Time: time.Unix(int64(1e9+i*pods+j), 0)}
			state.SetPod(p)
		}
	}
	return state
}

// preemptNext preempts for a pod that takes the room of two, and has the victims terminate.
func preemptNext(b *testing.B, planner *scheduler.Planner, state *scheduler.State, i int) {
	vip := important(pod(fmt.Sprintf("vip-%d", i), "2", "1Gi"), 10)
	trial := planner.Trial(vip, state.Snapshot(), "DefaultPreemption")
	n, err := plugins.DefaultPreemption{}.Preempt(context.Background(), trial)
	if err != nil || len(n.Victims) != 2 {
		b.Fatalf("%+v, %v", n, err)
	}
	vip.Status.NominatedNodeName = n.Node
	state.Nominate(vip, n.Node)
	for _, victim := range n.Victims {
		going := *victim
		going.DeletionTimestamp = &metav1.Time{Time: time.Unix(2e9, 0)}
		going.Status.Conditions = []corev1.PodCondition{{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: corev1.PodReasonPreemptionByScheduler}}
		state.SetPod(&going)
	}
}
