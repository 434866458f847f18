package kubelet_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/cri/simulated"
	"github.com/keelson-dev/keelson/kubelet"
)

// turmoil records ten minutes on a node where much goes wrong.
func turmoil(t *testing.T) []string {
	var lines []string
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		rt := simulated.New(simulated.Options{
			Behave: func(op simulated.Operation) simulated.Outcome {
				switch {
				case op.Verb == simulated.PullImage && strings.HasPrefix(op.Image, "missing"):
					return simulated.Outcome{Delay: 300 * time.Millisecond, Err: errors.New("manifest unknown")}
				case op.Verb == simulated.RunSandbox && op.Pod.Name == "pod-7":
					return simulated.Outcome{Hang: op.Pod.Attempt == 0}
				}
				return simulated.Outcome{}
			},
			Program: func(p simulated.Process) simulated.Program {
				switch p.Pod.Name {
				case "pod-1", "pod-2":
					return simulated.Program{Exits: true, After: 2 * time.Second, ExitCode: 1}
				case "pod-3":
					return simulated.Program{Exits: true, After: 3 * time.Second}
				case "pod-4":
					return simulated.Program{IgnoresStop: true}
				}
				return simulated.Program{}
			},
		})
		defer rt.Close()
		n := w.run(rt, kubelet.Options{})
		for i := range 10 {
			w.pods.Put(newPod(fmt.Sprintf("pod-%d", i), func(p *corev1.Pod) {
				switch i {
				case 3:
					p.Spec.RestartPolicy = corev1.RestartPolicyNever
				case 5:
					p.Spec.Containers[0].Image = "missing"
				case 6:
					p.Spec.Containers[0].ReadinessProbe = execProbe(5, 10)
				}
			}))
		}
		n.after(time.Minute)
		for i := range 10 {
			w.remove(fmt.Sprintf("pod-%d", i), 30)
		}
		n.after(9 * time.Minute)
		n.leftNothing()
		n.stop()
		// The lease and the node's status are written concurrently.
		slices.SortStableFunc(w.nodeLog, strings.Compare)
		lines = slices.Concat(w.changes, w.nodeLog)
	})
	return lines
}

func TestTurmoilIsTheSameEveryTime(t *testing.T) {
	first := turmoil(t)
	if len(first) < 80 {
		t.Fatalf("only %d lines:\n%s", len(first), strings.Join(first, "\n"))
	}
	for range 30 {
		if again := turmoil(t); !slices.Equal(first, again) {
			for i := range first {
				if i >= len(again) || first[i] != again[i] {
					t.Fatalf("line %d is %q, and was %q", i, again[min(i, len(again)-1)], first[i])
				}
			}
			t.Fatal("there are more lines than the first time")
		}
	}
}
