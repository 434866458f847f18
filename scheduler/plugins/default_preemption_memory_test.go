package plugins_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"

	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/informer/memory"
	"github.com/keelson-dev/keelson/scheduler"
	"github.com/keelson-dev/keelson/scheduler/budgets"
	"github.com/keelson-dev/keelson/scheduler/plugins"
)

// What is kept from pod to pod changes no result, in any history of pods that come and go, of nominations and of budgets.
func TestPreemptionRemembersRightly(t *testing.T) {
	preempted := 0
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 1))
		profile := scheduler.Profile{Plugins: plugins.Default()}
		planner := scheduler.NewPlanner(&profile)
		in := informer.New[*policyv1.PodDisruptionBudget](memory.New[*policyv1.PodDisruptionBudget](), informer.Options{})
		p := plugins.DefaultPreemption{Budgets: budgets.New(in)}
		var state scheduler.State
		nodes := 1 + r.IntN(6)
		for i := range nodes {
			state.SetNode(node(fmt.Sprint("n", i), "cpu", "4", "pods", "9"))
		}
		for i := range 300 {
			switch r.IntN(6) {
			case 0:
				pdb := budget(fmt.Sprint("b", r.IntN(2)), "x", int32(r.IntN(3)))
				pdb.ResourceVersion = fmt.Sprint(i)
				in.Put(pdb)
			case 1:
				if r.IntN(20) == 0 {
					state.SetNode(node(fmt.Sprint("new", i), "cpu", "3", "pods", "9"))
				}
			case 2, 3:
				started := fmt.Sprint(r.IntN(50))
				if r.IntN(10) == 0 {
					started = "-"
				}
				low := running(t, fmt.Sprintf("p%d n%d %d %d %s %s", i, r.IntN(nodes), 1+r.IntN(2), r.IntN(4), started, []string{"x", "y"}[r.IntN(2)]))
				if n := state.Snapshot().Node(low.Spec.NodeName); n.Requested.MilliCPU < 3000 {
					state.SetPod(low)
				}
				state.Nominate(running(t, fmt.Sprintf("vip%d n 1 0 0", r.IntN(20))), "")
			default:
				pod := running(t, fmt.Sprintf("vip%d n 3 %d 0", r.IntN(20), 2+r.IntN(8)))
				pod.Spec.NodeName = ""
				s := state.Snapshot()
				remembering := planner.Trial(pod, s, p.Name())
				if remembering.Decision().Err == nil {
					continue
				}
				got, gotErr := p.Preempt(context.Background(), remembering)
				want, wantErr := p.Preempt(context.Background(), profile.Trial(pod, s))
				if diff := cmp.Diff(want, got); diff != "" || fmt.Sprint(gotErr) != fmt.Sprint(wantErr) {
					t.Fatalf("seed %d, step %d: %v, without memory %v\n%s", seed, i, gotErr, wantErr, diff)
				}
				if got == nil || got.Node == "" {
					continue
				}
				preempted++
				state.Nominate(pod, got.Node)
				for _, victim := range got.Victims {
					if r.IntN(2) == 0 {
						state.RemovePod(victim)
					}
				}
			}
		}
	}
	if preempted < 100 {
		t.Errorf("only %d preemptions", preempted)
	}
}

// What is known about nodes that do not change is not found out again.
func TestPreemptionRemembers(t *testing.T) {
	asked := 0
	profile := scheduler.Profile{Plugins: scheduler.With(plugins.Default(), scheduler.Enabled{Plugin: counting{scheduler.PredicateFunc("Counts",
		func(_ *corev1.Pod, n *scheduler.NodeInfo) *scheduler.Refusal {
			if len(n.Pods) == 0 {
				asked++
			}
			return nil
		})}})}
	planner := scheduler.NewPlanner(&profile)
	var state scheduler.State
	for i := range 10 {
		name := fmt.Sprint("n", i)
		state.SetNode(node(name, "cpu", "4", "pods", "9"))
		state.SetPod(running(t, fmt.Sprintf("p%d %s 4 %d %d", i, name, i, i)))
	}
	var all []int
	for i := range 4 {
		pod := running(t, fmt.Sprintf("vip%d n 4 20 0", i))
		pod.Spec.NodeName = ""
		asked = 0
		n, err := plugins.DefaultPreemption{}.Preempt(context.Background(), planner.Trial(pod, state.Snapshot(), "DefaultPreemption"))
		if want := fmt.Sprint("n", i/2); err != nil || n.Node != want {
			t.Fatalf("%+v, %v", n, err)
		}
		all = append(all, asked)
		if i%2 == 1 {
			state.RemovePod(n.Victims[0])
			state.SetPod(running(t, fmt.Sprintf("taken%d %s 4 20 0", i, n.Node)))
		}
	}
	if diff := cmp.Diff([]int{10, 0, 0, 0}, all); diff != "" {
		t.Error(diff)
	}
}

// What is known is forgotten when it may not hold any more: with another budget, and as time passes for pods that have not started.
func TestPreemptionForgets(t *testing.T) {
	profile := scheduler.Profile{Plugins: plugins.Default()}
	cluster := func(pods ...string) *scheduler.Snapshot {
		var state scheduler.State
		for _, name := range []string{"a", "b"} {
			state.SetNode(node(name, "cpu", "4", "pods", "9"))
		}
		for _, p := range pods {
			state.SetPod(running(t, p))
		}
		return state.Snapshot()
	}
	preempts := func(p plugins.DefaultPreemption, planner *scheduler.Planner, s *scheduler.Snapshot, want string) {
		t.Helper()
		vip := running(t, "vip n 4 20 0")
		vip.Spec.NodeName = ""
		n, err := p.Preempt(context.Background(), planner.Trial(vip, s, p.Name()))
		if err != nil || n.Node != want {
			t.Errorf("preempts on %+v, %v, want %s", n, err, want)
		}
	}
	t.Run("budgets", func(t *testing.T) {
		in := informer.New[*policyv1.PodDisruptionBudget](memory.New[*policyv1.PodDisruptionBudget](), informer.Options{})
		p, planner := plugins.DefaultPreemption{Budgets: budgets.New(in)}, scheduler.NewPlanner(&profile)
		s := cluster("x a 4 1 9 x", "y b 4 1 1 y") // the younger one goes
		preempts(p, planner, s, "a")
		pdb := budget("b", "x", 0)
		pdb.ResourceVersion = "1"
		in.Put(pdb)
		preempts(p, planner, s, "b")
	})
	t.Run("nominations", func(t *testing.T) {
		p, planner := plugins.DefaultPreemption{}, scheduler.NewPlanner(&profile)
		var state scheduler.State
		for _, name := range []string{"a", "b"} {
			state.SetNode(node(name, "cpu", "5", "pods", "9"))
		}
		state.SetPod(running(t, "x a 5 1 9")) // the younger one goes
		state.SetPod(running(t, "y b 5 1 1"))
		small, large := running(t, "small n 1 30 0"), running(t, "large n 2 30 0")
		state.Nominate(small, "a")
		preempts(p, planner, state.Snapshot(), "a")
		state.Nominate(small, "")
		state.Nominate(large, "a") // which leaves no room
		preempts(p, planner, state.Snapshot(), "b")
	})
	t.Run("time", func(t *testing.T) {
		synctest.Test(t, func(*testing.T) {
			p, planner := plugins.DefaultPreemption{}, scheduler.NewPlanner(&profile)
			s := cluster("x a 4 1 -", "y b 4 1 1") // which starts in years
			preempts(p, planner, s, "b")
			time.Sleep(3 * 365 * 24 * time.Hour)
			preempts(p, planner, s, "a")
		})
	})
}

// counting is a local predicate.
type counting struct{ scheduler.Predicate }

func (counting) Signature(b []byte, _ *corev1.Pod) ([]byte, bool) { return b, true }

// What is not known because a predicate failed is found out the next time.
func TestPreemptionForgetsFailures(t *testing.T) {
	fails := 1
	profile := scheduler.Profile{Plugins: scheduler.With(plugins.Default(), scheduler.Enabled{Plugin: counting{scheduler.PredicateFunc("Fails",
		func(_ *corev1.Pod, n *scheduler.NodeInfo) *scheduler.Refusal {
			if len(n.Pods) > 0 {
				return nil
			}
			if fails--; fails >= 0 {
				return &scheduler.Refusal{Err: errors.New("boom")}
			}
			return nil
		})}})}
	planner := scheduler.NewPlanner(&profile)
	s := scheduler.NewSnapshot([]*corev1.Node{node("n", "cpu", "4", "pods", "9")}, []*corev1.Pod{running(t, "p n 4 0 0")})
	for i, want := range []string{`preemption: running "Fails" filter plugin: boom`, ""} {
		vip := running(t, fmt.Sprintf("vip%d - 4 20 0", i))
		vip.Spec.NodeName = ""
		n, err := plugins.DefaultPreemption{}.Preempt(context.Background(), planner.Trial(vip, s, "DefaultPreemption"))
		if (err == nil) != (want == "") || err != nil && err.Error() != want || err == nil && n.Node != "n" {
			t.Errorf("%d: %+v, %v", i, n, err)
		}
	}
}
