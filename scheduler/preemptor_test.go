package scheduler_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/scheduler"
	"github.com/keelson-dev/keelson/scheduler/plugins"
)

// preempting returns the default profile with preemptors that give one answer each.
func preempting(answers ...func(scheduler.Decision, *scheduler.Snapshot) (*scheduler.Nomination, error)) scheduler.Profile {
	p := scheduler.Profile{Plugins: scheduler.Without(plugins.Default(), "DynamicResources", "DefaultPreemption")}
	for i, answer := range answers {
		p.Plugins = append(p.Plugins, scheduler.Enabled{Plugin: scheduler.PreemptorFunc(string(rune('A'+i)),
			func(_ context.Context, t *scheduler.Trial) (*scheduler.Nomination, error) {
				return answer(t.Decision(), t.Snapshot())
			})})
	}
	return p
}

func says(n *scheduler.Nomination, err error) func(scheduler.Decision, *scheduler.Snapshot) (*scheduler.Nomination, error) {
	return func(scheduler.Decision, *scheduler.Snapshot) (*scheduler.Nomination, error) { return n, err }
}

func nominated(p *corev1.Pod, node string) *corev1.Pod {
	p.Status.NominatedNodeName = node
	return p
}

// A preemptor sees why each node was refused, makes room and nominates; no pod of lower priority takes the
// room.
func TestPreemptorMakesRoom(t *testing.T) {
	var s *server
	var decisions []scheduler.Decision
	profile := preempting(func(d scheduler.Decision, snapshot *scheduler.Snapshot) (*scheduler.Nomination, error) {
		if d.Pod.Spec.Priority == nil {
			return nil, scheduler.Refuse("not important")
		}
		for _, v := range d.Verdicts {
			if v.Refusal == nil || v.RefusedBy != "NodeResourcesFit" {
				t.Errorf("verdict %+v", v)
			}
			if v.Refusal.Unresolvable {
				continue
			}
			for _, victim := range snapshot.Node(v.Node).Pods {
				time.AfterFunc(10*time.Second, func() { s.pods.Delete(victim.Pod.Namespace, victim.Pod.Name) })
			}
			return &scheduler.Nomination{Node: v.Node}, nil
		}
		return nil, scheduler.Refuse("no victims")
	})
	o := scheduler.Options{OnDecision: func(d scheduler.Decision) { decisions = append(decisions, d) }}
	runProfile(t, profile, o, func(t *testing.T, is *server, sched *scheduler.Scheduler) {
		s = is
		s.pods.Put(on(pod("victim", "4", "1Gi"), "big"))
		synctest.Wait()
		s.pods.Put(important(pod("vip", "3", "1Gi"), 10))
		synctest.Wait()
		const message = "0/2 nodes are available: 2 Insufficient cpu."
		same(t, []string{"0s vip: Warning Scheduling/FailedScheduling " + message, "0s vip: PodScheduled=False Unschedulable: " + message}, s.said())
		same(t, []string{"vip:big"}, s.nominated())
		same(t, 1, len(sched.Snapshot().Nominated("big")))
		same(t, 1, len(decisions))

		// Pods of lower priority find no room when the victim has gone, unless they fit beside the nominated
		// pod.
		s.pods.Put(pod("first", "2", "1Gi"))
		s.pods.Put(pod("small", "500m", "1Gi"))
		synctest.Wait()
		same(t, "little", s.where()["small"])
		after(10 * time.Second)
		same(t, map[string]string{"vip": "big", "first": "-", "small": "little"}, s.where())
		same(t, 0, len(sched.Snapshot().Nominated("big")))
		last := decisions[len(decisions)-1]
		for _, d := range decisions {
			if d.Pod.Name == "vip" {
				last = d
			}
		}
		same(t, 1, len(last.Verdicts)) // it checked no other node
		same(t, "big", last.Verdicts[0].Node)
	}, node("big", "4", "8Gi"), node("little", "1", "8Gi"))
}

// Preemptors' reasons follow those of the predicates, as upstream.
func TestPreemptorMessages(t *testing.T) {
	n := func(node string) *scheduler.Nomination { return &scheduler.Nomination{Node: node} }
	final := &scheduler.Refusal{Reasons: []string{"never"}, Unresolvable: true}
	type answers []func(scheduler.Decision, *scheduler.Snapshot) (*scheduler.Nomination, error)
	for name, tt := range map[string]struct {
		had     string
		answers answers
		message string
		want    string
	}{
		"none, clears":             {"old", nil, "", ""},
		"refuses, keeps":           {"old", answers{says(nil, scheduler.Refuse("no room"))}, " no room", "old"},
		"refuses, clears":          {"old", answers{says(n(""), scheduler.Refuse("no room"))}, " no room", ""},
		"several refuse":           {"", answers{says(nil, scheduler.Refuse("a")), says(nil, scheduler.Refuse("b", "c"))}, " a, b, c", ""},
		"the last nomination":      {"", answers{says(n("x"), scheduler.Refuse("a")), says(n("n"), scheduler.Refuse("b")), says(nil, scheduler.Refuse("c"))}, " a, b, c", "n"},
		"success ends it":          {"", answers{says(nil, scheduler.Refuse("a")), says(n("n"), nil), says(n("x"), nil)}, "", "n"},
		"success without any":      {"old", answers{says(nil, nil)}, "", "old"},
		"the unresolvable keeps":   {"old", answers{says(nil, final), says(n("x"), nil)}, " never", "old"},
		"the unresolvable ends it": {"", answers{says(n("n"), final), says(n("x"), nil)}, " never", "n"},
		"failure":                  {"old", answers{says(n("x"), errors.New("boom")), says(n("x"), nil)}, " boom", "old"},
	} {
		t.Run(name, func(t *testing.T) {
			runProfile(t, preempting(tt.answers...), scheduler.Options{}, func(t *testing.T, s *server, sched *scheduler.Scheduler) {
				s.pods.Put(nominated(pod("web", "8", "1Gi"), tt.had))
				synctest.Wait()
				same(t, "0s web: Warning Scheduling/FailedScheduling 0/1 nodes are available: 1 Insufficient cpu."+tt.message, s.said()[0])
				p, _ := s.pods.Get("default", "web")
				same(t, tt.want, p.Status.NominatedNodeName)
				same(t, tt.want != "", len(sched.Snapshot().Nominated(tt.want)) == 1)
			}, node("n", "4", "8Gi"))
		})
	}
}

// Without nodes, and after a predicate failed, preemptors are not called.
func TestPreemptorIsNotAsked(t *testing.T) {
	never := func(d scheduler.Decision, _ *scheduler.Snapshot) (*scheduler.Nomination, error) {
		t.Errorf("asked about %v", d.Err)
		return nil, nil
	}
	runProfile(t, preempting(never), scheduler.Options{}, func(t *testing.T, s *server, _ *scheduler.Scheduler) {
		s.pods.Put(nominated(pod("web", "8", "1Gi"), "old"))
		synctest.Wait()
		same(t, []string{"web:"}, s.nominated())
	})
	failing := preempting(never)
	failing.Plugins = append(failing.Plugins, scheduler.Enabled{Plugin: scheduler.PredicateFunc("Broken", func(*corev1.Pod, *scheduler.NodeInfo) *scheduler.Refusal {
		return &scheduler.Refusal{Err: errors.New("broken")}
	})})
	runProfile(t, failing, scheduler.Options{}, func(t *testing.T, s *server, _ *scheduler.Scheduler) {
		s.pods.Put(pod("web", "1", "1Gi"))
		synctest.Wait()
	}, node("n", "4", "8Gi"))
}

// Nominated pods count on their node for pods of no higher priority, with every predicate.
func TestNominatedPodsCount(t *testing.T) {
	profile := defaults()
	planner := scheduler.NewPlanner(&profile)
	var state scheduler.State
	state.SetNode(node("n", "4", "8Gi"))
	state.SetNode(node("m", "1", "8Gi"))
	vip := important(pod("vip", "3", "1Gi"), 10)
	same(t, true, state.Nominate(vip, "n"))
	same(t, false, state.Nominate(vip, "n"))
	decide := func(p *corev1.Pod) string {
		t.Helper()
		s := state.Snapshot()
		d := profile.Schedule(p, s)
		node, err := planner.Place(p, s)
		if node != d.Node || (err == nil) != (d.Err == nil) {
			t.Errorf("the planner says %s, %v; the profile\n%v", node, err, d)
		}
		return d.Node
	}
	for range 2 {
		same(t, "", decide(pod("p", "2", "1Gi")))
		same(t, "", decide(important(pod("p", "2", "1Gi"), 10)))
		same(t, "n", decide(important(pod("p", "2", "1Gi"), 11)))
		same(t, "n", decide(vip))
		same(t, "m", decide(nominated(pod("p", "1", "1Gi"), "m")))
		same(t, "n", decide(nominated(pod("p", "1", "1Gi"), "n")))
		same(t, "", decide(nominated(pod("p", "2", "1Gi"), "n")))
	}
	before := state.Snapshot()
	same(t, true, state.Nominate(vip, "m"))
	same(t, 0, len(state.Snapshot().Nominated("n")))
	same(t, 1, len(before.Nominated("n")))
	same(t, "n", decide(pod("p", "2", "1Gi")))
	what := before.State()
	state.SetPod(on(vip, "n"))
	same(t, 0, len(state.Snapshot().Nominated("m")))
	same(t, 1, len(what.Snapshot().Nominated("n")))
	same(t, false, state.Nominate(vip, ""))
}

// A pod that is created with a nomination counts before its first attempt, even if a gate holds it.
func TestPodCreatedNominated(t *testing.T) {
	run(t, scheduler.Options{}, func(t *testing.T, s *server, _ *scheduler.Scheduler) {
		gated := nominated(important(pod("vip", "3", "1Gi"), 10), "n")
		gated.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "g"}}
		s.pods.Put(gated)
		synctest.Wait()
		s.pods.Put(pod("small", "2", "1Gi"))
		synctest.Wait()
		same(t, "-", s.where()["small"])
		s.pods.Delete("default", "vip")
		after(2 * time.Second)
		same(t, "n", s.where()["small"])
	}, node("n", "4", "8Gi"))
}

// A nomination that is removed makes room for the pods that it blocked, and for no others.
func TestNominationRemoved(t *testing.T) {
	for name, goes := range map[string]func(*server, *corev1.Pod){
		"deleted":      func(s *server, p *corev1.Pod) { s.pods.Delete("default", p.Name) },
		"renominated":  func(s *server, p *corev1.Pod) { s.pods.Put(nominated(p.DeepCopy(), "elsewhere")) },
		"taken back":   func(s *server, p *corev1.Pod) { s.pods.Put(nominated(p.DeepCopy(), "")) },
		"of the other": nil,
	} {
		t.Run(name, func(t *testing.T) {
			keep := says(nil, scheduler.Refuse("no room"))
			runProfile(t, preempting(keep), scheduler.Options{}, func(t *testing.T, s *server, _ *scheduler.Scheduler) {
				p := nominated(important(pod("vip", "8", "1Gi"), 10), "n")
				s.pods.Put(p)
				synctest.Wait()
				s.pods.Put(pod("small", "1", "1Gi"))
				s.pods.Put(important(pod("other", "8", "1Gi"), 11))
				after(time.Minute)
				same(t, "-", s.where()["small"])
				s.said()
				if goes == nil {
					return
				}
				goes(s, p)
				after(20 * time.Second)
				same(t, "n", s.where()["small"])
				for _, said := range s.said() {
					if said[len("1m0s "):len("1m0s ")+5] == "other" {
						t.Errorf("tried again: %s", said)
					}
				}
			}, node("n", "4", "8Gi"))
		})
	}
}

// Predicates that look at other nodes see nominated pods, too: by a check of their own, or prepared again.
func TestNominatedPodsCountElsewhere(t *testing.T) {
	const reason = "node(s) belonged to a cluster with such a pod"
	alike := func(n *scheduler.NodeInfo) (found int) {
		for _, p := range n.Pods {
			if p.Pod.Labels["app"] == "web" {
				found++
			}
		}
		return found
	}
	refuse := func(found int) *scheduler.Refusal {
		if found > 0 {
			return scheduler.Refuse(reason)
		}
		return nil
	}
	count := func(s *scheduler.Snapshot) (found int) {
		for _, n := range s.Nodes() {
			found += alike(n)
		}
		return found
	}
	calls := 0
	for name, prepare := range map[string]func(*scheduler.Snapshot) (scheduler.Prepared, error){
		"again": func(s *scheduler.Snapshot) (scheduler.Prepared, error) {
			found := count(s)
			return scheduler.Prepared{Check: func(*scheduler.NodeInfo) *scheduler.Refusal { return refuse(found) }}, nil
		},
		"again, whole": func(s *scheduler.Snapshot) (scheduler.Prepared, error) {
			return scheduler.Prepared{Refusal: refuse(count(s))}, nil
		},
		"again, nodes": func(s *scheduler.Snapshot) (scheduler.Prepared, error) {
			if count(s) > 0 {
				return scheduler.Prepared{Nodes: []string{"elsewhere"}}, nil
			}
			return scheduler.Prepared{}, nil
		},
		"again, failing": func(s *scheduler.Snapshot) (scheduler.Prepared, error) {
			if count(s) > 0 {
				return scheduler.Prepared{}, errors.New("broken")
			}
			return scheduler.Prepared{}, nil
		},
		"again, its own check": func(s *scheduler.Snapshot) (scheduler.Prepared, error) {
			return scheduler.Prepared{Skip: len(s.Nodes()[0].Pods) > 1}, nil
		},
		"changed": func(s *scheduler.Snapshot) (scheduler.Prepared, error) {
			calls++
			found := count(s)
			return scheduler.Prepared{
				Check:        func(*scheduler.NodeInfo) *scheduler.Refusal { return refuse(found) },
				CheckChanged: func(was, is *scheduler.NodeInfo) *scheduler.Refusal { return refuse(found + alike(is) - alike(was)) },
			}, nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			profile := scheduler.Profile{Plugins: []scheduler.Enabled{{Plugin: prepared{scheduler.PredicateFunc("Alone", func(_ *corev1.Pod, n *scheduler.NodeInfo) *scheduler.Refusal {
				return refuse(alike(n))
			}), prepare}}}}
			var state scheduler.State
			state.SetNode(node("n", "4", "8Gi"))
			same(t, "n", profile.Schedule(pod("p", "1", "1Gi"), state.Snapshot()).Node)
			vip := important(pod("vip", "1", "1Gi"), 10)
			vip.Labels = map[string]string{"app": "web"}
			state.Nominate(vip, "n")
			calls = 0
			d := profile.Schedule(pod("p", "1", "1Gi"), state.Snapshot())
			same(t, "", d.Node)
			if name == "changed" {
				same(t, 1, calls)
			}
		})
	}
}

// prepared is a predicate with a function for its Preparer.
type prepared struct {
	scheduler.Predicate
	prepare func(*scheduler.Snapshot) (scheduler.Prepared, error)
}

func (p prepared) Prepare(_ *corev1.Pod, s *scheduler.Snapshot) (scheduler.Prepared, error) {
	return p.prepare(s)
}

// What a predicate says of a node with a nominated pod, when it is prepared again, counts as what it says at first.
func TestPreparedAgain(t *testing.T) {
	passes := func(*scheduler.NodeInfo) *scheduler.Refusal { return nil }
	refuses := func(*scheduler.NodeInfo) *scheduler.Refusal { return scheduler.Refuse("checked") }
	for name, tt := range map[string]struct {
		again scheduler.Prepared
		err   error
		own   *scheduler.Refusal // of the predicate's own Check
		want  string
	}{
		"nothing to check":     {scheduler.Prepared{Skip: true}, nil, scheduler.Refuse("own"), ""},
		"refused as a whole":   {scheduler.Prepared{Refusal: scheduler.Refuse("whole"), Check: passes}, nil, nil, "whole"},
		"other nodes":          {scheduler.Prepared{Nodes: []string{"elsewhere"}, Check: passes}, nil, nil, "node(s) didn't satisfy plugin(s) [X]"},
		"this node":            {scheduler.Prepared{Nodes: []string{"n"}}, nil, nil, ""},
		"this node, its check": {scheduler.Prepared{Nodes: []string{"n"}, Check: refuses}, nil, nil, "checked"},
		"a check":              {scheduler.Prepared{Check: refuses}, nil, nil, "checked"},
		"a check that passes":  {scheduler.Prepared{Check: passes}, nil, scheduler.Refuse("own"), ""},
		"its own check":        {scheduler.Prepared{}, nil, scheduler.Refuse("own"), "own"},
		"a failure":            {scheduler.Prepared{Check: passes}, errors.New("boom"), nil, "boom"},
	} {
		own := scheduler.PredicateFunc("X", func(*corev1.Pod, *scheduler.NodeInfo) *scheduler.Refusal { return tt.own })
		profile := profileOf(prepared{own, func(s *scheduler.Snapshot) (scheduler.Prepared, error) {
			if len(s.Node("n").Pods) == 0 {
				return scheduler.Prepared{Check: passes}, nil
			}
			return tt.again, tt.err
		}})
		state := scheduler.NewSnapshot([]*corev1.Node{node("n", "4", "8Gi")}, nil).State()
		state.Nominate(important(pod("vip", "1", ""), 10), "n")
		d := profile.Schedule(pod("p", "1", ""), state.Snapshot())
		got := ""
		if d.Node == "" {
			got = d.Verdicts[0].Refusal.Error()
		}
		if got != tt.want {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}

// A predicate that only looks at nodes sees nominated pods, too, and those that are on their node already once.
func TestNominatedPodsCountOnce(t *testing.T) {
	crowded := scheduler.PredicateFunc("Crowded", func(_ *corev1.Pod, n *scheduler.NodeInfo) *scheduler.Refusal {
		if len(n.Pods) > 2 {
			return scheduler.Refuse("crowded")
		}
		return nil
	})
	profile := profileOf(crowded)
	x, y, z := on(pod("x", "1", ""), "n"), on(pod("y", "1", ""), "n"), pod("z", "1", "")
	state := scheduler.NewSnapshot([]*corev1.Node{node("n", "4", "8Gi")}, []*corev1.Pod{x, y}).State()
	for _, step := range []struct {
		nominated *corev1.Pod
		want      string
	}{{x, "n"}, {y, "n"}, {z, ""}} {
		state.Nominate(step.nominated, "n")
		if d := profile.Schedule(pod("p", "1", ""), state.Snapshot()); d.Node != step.want {
			t.Errorf("%s is nominated: decided\n%v", step.nominated.Name, d)
		}
	}
}
