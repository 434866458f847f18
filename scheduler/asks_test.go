package scheduler_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/scheduler"
)

// slow is a program elsewhere that takes 5 s to answer, about pods with the label "asks" of its name. The annotation "refused"
// of a pod names the nodes that it refuses.
type slow struct {
	name string
	mu   sync.Mutex
	log  []string
	err  error
}

func (s *slow) Name() string { return s.name }

func (s *slow) SkipAsk(pod *corev1.Pod) bool { return !strings.Contains(pod.Labels["asks"], s.name) }

func (s *slow) Winnow(ctx context.Context, pod *corev1.Pod, nodes []*scheduler.NodeInfo) ([]*scheduler.Refusal, error) {
	line := pod.Name + ":"
	refusals := make([]*scheduler.Refusal, len(nodes))
	for i, n := range nodes {
		line += n.Name
		if strings.Contains(pod.Annotations["refused"], n.Name) {
			refusals[i] = scheduler.Refuse("node(s) were not liked")
		}
	}
	s.note(line)
	if err := pause(ctx); err != nil {
		s.note(pod.Name + " ends")
		return nil, err
	}
	return refusals, s.err
}

func pause(ctx context.Context) error {
	select {
	case <-time.After(5 * time.Second):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *slow) note(line string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.log = append(s.log, line)
}

// said returns what it was asked since the last call.
func (s *slow) said() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	log := strings.Join(s.log, " ")
	s.log = nil
	return log
}

// asks is a pod that the named programs are asked about.
func asks(name, cpu string, programs string) *corev1.Pod {
	p := pod(name, cpu, "")
	p.Labels = map[string]string{"asks": programs}
	return p
}

func refused(p *corev1.Pod, nodes string) *corev1.Pod {
	p.Annotations = map[string]string{"refused": nodes}
	return p
}

// While a program is asked about one pod, the others are scheduled and bound, and events are heard.
func TestOthersGoOnWhileAProgramIsAsked(t *testing.T) {
	program := &slow{name: "x"}
	runProfile(t, also(program), scheduler.Options{}, func(t *testing.T, s *server, sched *scheduler.Scheduler) {
		s.pods.Put(asks("asking", "1", "x"))
		synctest.Wait()
		s.pods.Put(pod("first", "1", ""))
		synctest.Wait()
		same(t, map[string]string{"asking": "-", "first": "a"}, s.where())
		after(time.Second)
		s.nodes.Put(node("b", "8", "8Gi"))
		s.pods.Put(on(pod("foreign", "2", ""), "a"))
		s.pods.Put(pod("big", "8", ""))
		synctest.Wait()
		same(t, "b", s.where()["big"])
		same(t, 3000, sched.Snapshot().Node("a").Requested.MilliCPU)
		after(4 * time.Second)
		same(t, "a", s.where()["asking"])
		same(t, "asking:a", program.said())
	}, node("a", "4", "8Gi"))
}

// What a program says counts for the state of the cluster when it has answered.
func TestAnswersCountForTheNewState(t *testing.T) {
	for name, c := range map[string]struct {
		refused   string
		nominated string
		change    func(s *server)
		asked     string
		node      string
	}{
		"one of the nodes is taken":       {"", "", func(s *server) { s.pods.Put(on(pod("other", "4", ""), "a")) }, "p:ab", "b"},
		"its node is taken":               {"b", "", func(s *server) { s.pods.Put(on(pod("other", "4", ""), "a")) }, "p:ab p:b", "-"},
		"its node is taken, one comes":    {"b", "", func(s *server) { s.pods.Put(on(pod("other", "4", ""), "a")); s.nodes.Put(node("c", "4", "8Gi")) }, "p:ab p:bc", "c"},
		"its node goes, one comes":        {"b", "", func(s *server) { s.nodes.Delete("", "a"); s.nodes.Put(node("c", "4", "8Gi")) }, "p:ab p:bc", "c"},
		"one comes":                       {"b", "", func(s *server) { s.nodes.Put(node("c", "4", "8Gi")) }, "p:ab", "a"},
		"nominated":                       {"", "b", func(*server) {}, "p:b", "b"},
		"nominated, refused":              {"b", "b", func(*server) {}, "p:b p:ab", "a"},
		"nominated, taken":                {"", "b", func(s *server) { s.pods.Put(on(pod("other", "4", ""), "b")) }, "p:b p:a", "a"},
		"nominated, both are taken":       {"", "b", func(s *server) { s.pods.Put(on(pod("o1", "4", ""), "a")); s.pods.Put(on(pod("o2", "4", ""), "b")) }, "p:b", "-"},
		"nominated, the other is refused": {"a", "b", func(s *server) { s.pods.Put(on(pod("other", "4", ""), "b")) }, "p:b p:a", "-"},
		"the pod's status changes": {"b", "", func(s *server) {
			p, _ := s.pods.Get("default", "p")
			p = p.DeepCopy()
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse}}
			s.pods.Put(p)
		}, "p:ab", "a"},
		"the pod changes": {"b", "", func(s *server) {
			p, _ := s.pods.Get("default", "p")
			s.pods.Put(refused(p.DeepCopy(), "a"))
		}, "p:ab p:ab", "b"},
		"one comes before it": {"b", "", func(s *server) {
			s.pods.Put(on(pod("other", "4", ""), "a"))
			s.nodes.Put(node("0", "4", "8Gi"))
		}, "p:ab p:0b", "0"},
		"nominated for one that comes": {"b", "", func(s *server) {
			s.nodes.Put(node("c", "4", "8Gi"))
			p, _ := s.pods.Get("default", "p")
			s.pods.Put(nominated(p.DeepCopy(), "c"))
		}, "p:ab", "a"},
		"a gone pod": {"", "", func(s *server) { s.pods.Delete("default", "p") }, "p:ab p ends", ""},
		"another pod of the name": {"", "", func(s *server) {
			s.pods.Delete("default", "p")
			p := refused(asks("p", "3", "x"), "b")
			p.UID = "another"
			s.pods.Put(p)
		}, "p:ab p ends p:ab", "a"},
		"a pod that is bound by others": {"", "", func(s *server) {
			p, _ := s.pods.Get("default", "p")
			s.pods.Put(on(p.DeepCopy(), "b"))
		}, "p:ab p ends", "b"},
		"a pod that is to go": {"", "", func(s *server) {
			p, _ := s.pods.Get("default", "p")
			s.pods.Put(ending(p))
		}, "p:ab", "-"},
	} {
		t.Run(name, func(t *testing.T) {
			program := &slow{name: "x"}
			runProfile(t, also(program), scheduler.Options{}, func(t *testing.T, s *server, sched *scheduler.Scheduler) {
				p := refused(asks("p", "3", "x"), c.refused)
				p.Status.NominatedNodeName = c.nominated
				s.pods.Put(p)
				after(time.Second)
				c.change(s)
				after(10 * time.Second)
				same(t, c.asked, program.said())
				same(t, c.node, s.where()["p"])
				if left := len(sched.Snapshot().Nominated("b")); left > 0 {
					t.Errorf("%d pods are nominated", left)
				}
				// The program is free for the next.
				s.nodes.Put(node("z", "4", "8Gi"))
				s.pods.Put(refused(asks("next", "1", "x"), "0abc"))
				after(11 * time.Second)
				same(t, "z", s.where()["next"])
			}, node("a", "4", "8Gi"), node("b", "4", "8Gi"))
		})
	}
}

// fussy is a slow program that only some nodes can help.
type fussy struct{ *slow }

func (fussy) Events() scheduler.EventKind { return scheduler.NodeUpdated }

func (fussy) MayHelp(_ *corev1.Pod, e scheduler.Event) bool { return e.Node.Labels["helps"] == "yes" }

// A pod that a program refuses is tried again because of what happened meanwhile, if that may help.
func TestWhatHelpsWhileAProgramIsAsked(t *testing.T) {
	for helps, asked := range map[string]string{"yes": "p:a p:a", "no": "p:a"} {
		program := &slow{name: "x"}
		runProfile(t, also(fussy{program}), scheduler.Options{}, func(t *testing.T, s *server, _ *scheduler.Scheduler) {
			s.pods.Put(refused(asks("p", "1", "x"), "a"))
			after(time.Second)
			changed := node("a", "4", "8Gi")
			changed.Labels = map[string]string{"helps": helps}
			s.nodes.Put(changed)
			after(time.Minute)
			same(t, asked, program.said())
		}, node("a", "4", "8Gi"))
	}
}

// What a program says is about the nodes that it was asked about, whichever nodes other pods are tried on meanwhile.
func TestAnswersAreAboutTheirNodes(t *testing.T) {
	runProfile(t, also(&slow{name: "x"}), scheduler.Options{}, func(t *testing.T, s *server, _ *scheduler.Scheduler) {
		s.pods.Put(refused(asks("p", "1", "x"), "a"))
		after(time.Second)
		s.pods.Put(pod("other", "6", ""))
		after(10 * time.Second)
		same(t, map[string]string{"p": "b", "other": "b"}, s.where())
	}, node("a", "4", "8Gi"), node("b", "8", "8Gi"))
}

// A node that came while the program was asked is left out, and the decision says so.
func TestNodesThatCameTooLate(t *testing.T) {
	var decisions []scheduler.Decision
	o := scheduler.Options{OnDecision: func(d scheduler.Decision) { decisions = append(decisions, d) }}
	runProfile(t, also(&slow{name: "x"}), o, func(t *testing.T, s *server, _ *scheduler.Scheduler) {
		s.pods.Put(refused(asks("p", "3", "x"), "b"))
		after(time.Second)
		s.nodes.Put(node("c", "8", "8Gi"))
		after(5 * time.Second)
		same(t, 1, len(decisions))
		var lines []string
		for _, v := range decisions[0].Verdicts {
			lines = append(lines, fmt.Sprint(v.Node, " ", v.RefusedBy, " ", v.Refusal))
		}
		same(t, []string{"a  ", "b x node(s) were not liked", "c x node(s) were not available when extenders were asked"}, lines)
	}, node("a", "4", "8Gi"), node("b", "4", "8Gi"))
}

// A program is asked about one pod at a time, the most important first, and others meanwhile.
func TestOneQuestionAtATime(t *testing.T) {
	x, y := &slow{name: "x"}, &slow{name: "y"}
	runProfile(t, also(x, y), scheduler.Options{}, func(t *testing.T, s *server, sched *scheduler.Scheduler) {
		s.pods.Put(asks("p1", "1", "x"))
		synctest.Wait()
		s.pods.Put(asks("p2", "1", "xy"))
		s.pods.Put(asks("p3", "1", "x"))
		s.pods.Put(important(asks("p4", "1", "x"), 5))
		s.pods.Put(asks("p5", "1", "y"))
		gone := asks("p6", "1", "x")
		s.pods.Put(gone)
		synctest.Wait()
		same(t, 5, sched.Counts().Active)
		s.pods.Delete("default", "p6")
		synctest.Wait()
		same(t, 4, sched.Counts().Active)
		after(12 * time.Second) // p1, p4, p2 for x
		same(t, "p1:a p4:a p2:a", x.said())
		same(t, "", y.said()) // p5 does not overtake p2
		after(20 * time.Second)
		same(t, "p3:a", x.said())
		same(t, "p2:a p5:a", y.said())
		same(t, map[string]string{"p1": "a", "p2": "a", "p3": "a", "p4": "a", "p5": "a"}, s.where())
	}, node("a", "8", "8Gi"))
}

// A program that fails, or refuses all nodes, fails its pod alone; an event while it was asked is a reason to ask again.
func TestProgramsThatFail(t *testing.T) {
	const none = "0/1 nodes are available: 1 node(s) were not liked."
	for name, c := range map[string]struct {
		err    error
		event  bool
		want   []string
		rounds string
	}{
		"an error": {errors.New("broken"), false,
			[]string{"5s p: Warning Scheduling/FailedScheduling broken", "5s p: PodScheduled=False SchedulerError: broken"}, "p:a p:a p:a"},
		"a refusal": {nil, false,
			[]string{"5s p: Warning Scheduling/FailedScheduling " + none, "5s p: PodScheduled=False Unschedulable: " + none}, "p:a"},
		"a refusal, and an event": {nil, true,
			[]string{"5s p: Warning Scheduling/FailedScheduling " + none, "5s p: PodScheduled=False Unschedulable: " + none}, "p:a p:a"},
	} {
		t.Run(name, func(t *testing.T) {
			program := &slow{name: "x", err: c.err}
			runProfile(t, also(program), scheduler.Options{}, func(t *testing.T, s *server, _ *scheduler.Scheduler) {
				s.pods.Put(refused(asks("p", "1", "x"), "a"))
				after(time.Second)
				if c.event {
					s.pods.Put(on(pod("foreign", "1", ""), "a"))
				}
				after(5 * time.Second)
				same(t, c.want, s.said())
				after(14 * time.Second)
				same(t, c.rounds, program.said())
			}, node("a", "8", "8Gi"))
		})
	}
}

// rater is slow and scores nodes, too: a node of the name in its pod's annotation "likes" is the best.
type rater struct {
	*slow
	short bool
}

func (rater) Score(*corev1.Pod, *scheduler.NodeInfo) int64 { return 0 }

func (r rater) Rate(ctx context.Context, pod *corev1.Pod, nodes []*scheduler.NodeInfo) ([]int64, error) {
	likes := pod.Annotations["likes"]
	r.note("rate " + likes)
	if likes == "" {
		return nil, nil
	}
	if likes == "broken" {
		return nil, errors.New("broken")
	}
	scores := make([]int64, len(nodes))
	for i, n := range nodes {
		if n.Name == likes {
			scores[i] = 100
		}
	}
	if r.short {
		scores = scores[1:]
	}
	return scores, pause(ctx)
}

func TestRaters(t *testing.T) {
	for name, c := range map[string]struct {
		likes, refused string
		short          bool
		want, asked    string
	}{
		"the best":       {"b", "", false, "b", "p:abc rate b"},
		"the other":      {"c", "a", false, "c", "p:abc rate c"},
		"one left":       {"a", "ab", false, "c", "p:abc"},
		"none left":      {"a", "abc", false, "0/3 nodes are available: 3 node(s) were not liked.", "p:abc"},
		"nothing to say": {"", "ab", false, "c", "p:abc"},
		"skipped":        {"", "a", false, "c", "p:abc rate "},
		"failure":        {"broken", "", false, `running PreScore plugin "x": broken`, "p:abc rate broken"},
		"too few":        {"b", "", true, `running PreScore plugin "x": it scored 2 nodes of 3`, "p:abc rate b"},
	} {
		t.Run(name, func(t *testing.T) {
			r := rater{&slow{name: "x"}, c.short}
			profile := scheduler.Profile{Plugins: []scheduler.Enabled{{Plugin: r, Weight: 3}, {Plugin: scheduler.PriorityFunc("C", func(_ *corev1.Pod, n *scheduler.NodeInfo) int64 {
				return int64(len(strings.TrimLeft(n.Name, "ab"))) // c is better
			}), Weight: 1}}}
			p := refused(asks("p", "1", "x"), c.refused)
			p.Annotations["likes"] = c.likes
			got := func(d scheduler.Decision) string {
				if d.Err != nil {
					return d.Err.Error()
				}
				return d.Node
			}
			runProfile(t, profile, scheduler.Options{}, func(t *testing.T, s *server, sched *scheduler.Scheduler) {
				same(t, c.want, got(sched.Explain(p)))
				same(t, c.asked, r.said())
				s.pods.Put(p.DeepCopy())
				after(11 * time.Second)
				same(t, c.asked, strings.Split(r.said()+" p:", " p:")[0])
				if c.want == "b" || c.want == "c" {
					same(t, c.want, s.where()["p"])
				} else {
					same(t, true, strings.HasSuffix(s.said()[0], c.want))
				}
			}, node("a", "4", "8Gi"), node("b", "4", "8Gi"), node("c", "4", "8Gi"))
		})
	}
}

// Preemption for a pod that a program is asked about does not keep others from being scheduled.
func TestSlowPreemption(t *testing.T) {
	for name, c := range map[string]struct {
		refused string
		change  func(s *server)
		want    []string
	}{
		"victims": {"", func(*server) {}, []string{
			"6s p: Warning Scheduling/FailedScheduling 0/1 nodes are available: 1 Insufficient cpu. made room",
			"6s p: PodScheduled=False Unschedulable: 0/1 nodes are available: 1 Insufficient cpu. made room",
			"6s v: DisruptionTarget=True PreemptionByScheduler: default-scheduler: preempting to accommodate a higher priority pod",
			"6s v: deleted", "6s v: Normal Preempting/Preempted Preempted by pod p on node a (Pod p p)",
		}},
		"the pod goes": {"", func(s *server) { s.pods.Delete("default", "p") }, []string{}},
	} {
		t.Run(name, func(t *testing.T) {
			program := &slow{name: "x"}
			victim := on(pod("v", "4", ""), "a")
			preemptor := scheduler.PreemptorFunc("Preempts", func(ctx context.Context, tr *scheduler.Trial) (*scheduler.Nomination, error) {
				if tr.Pod().Name != "p" {
					return nil, nil
				}
				n, r := tr.Node("a")
				without := n.WithoutPods(func(p *scheduler.PodInfo) bool { return p.Pod.Name == "v" })
				if r == nil || tr.Check(n) == nil || tr.Check(without) != nil || len(tr.Decision().Verdicts) != 1 {
					t.Errorf("%v, with the victim %v, without it %v", r, tr.Check(n), tr.Check(without))
				}
				return &scheduler.Nomination{Node: "a", Victims: []*corev1.Pod{victim}, Message: "made room"}, pause(ctx)
			})
			var decisions []string
			o := scheduler.Options{OnDecision: func(d scheduler.Decision) {
				decisions = append(decisions, fmt.Sprint(d.Pod.Name, d.Preemption != nil))
			}}
			runProfile(t, also(program, preemptor), o, func(t *testing.T, s *server, _ *scheduler.Scheduler) {
				s.pods.Put(victim)
				time.Sleep(time.Second)
				p := asks("p", "4", "x")
				p.UID = "p"
				s.pods.Put(p)
				after(time.Second)
				s.pods.Put(asks("waits", "1", "x"))
				synctest.Wait()
				same(t, []string(nil), s.said())
				s.nodes.Put(node("b", "1", "8Gi"))
				synctest.Wait()
				s.pods.Put(pod("other", "100m", ""))
				synctest.Wait()
				same(t, "b", s.where()["other"])
				s.said()
				s.nodes.Delete("", "b")
				c.change(s)
				after(4 * time.Second)
				got := slices.DeleteFunc(s.said(), func(line string) bool { return strings.Contains(line, "waits") })
				same(t, c.want, got)
				same(t, len(c.want) > 0, slices.Contains(decisions, "ptrue"))
				same(t, len(c.want) == 0, s.where()["v"] == "a")
				after(time.Second)
				if len(c.want) > 0 {
					same(t, "p:a", program.said())
				}
			}, node("a", "4", "8Gi"))
		})
	}
}

// Run ends at once while programs are asked.
func TestRunEndsWhileAProgramIsAsked(t *testing.T) {
	program := &slow{name: "x"}
	runProfile(t, also(program), scheduler.Options{}, func(t *testing.T, s *server, _ *scheduler.Scheduler) {
		s.pods.Put(asks("p", "1", "x"))
		synctest.Wait()
	}, node("a", "4", "8Gi"))
	same(t, "p:a p ends", program.said())
}

// A pod that a program has no say in is placed by the other scores.
func TestRaterWithoutSay(t *testing.T) {
	program := &slow{name: "x"}
	profile := profileOf(rater{program, false}, rates{name: "C", scores: map[string]int64{"c": 5}})
	d := profile.Schedule(pod("p", "1", ""), three())
	if d.Node != "c" || !d.Verdicts[0].Scores[0].Skipped || program.said() != "" {
		t.Errorf("decided\n%v", d)
	}
	other := &slow{name: "y"}
	profile = profileOf(rater{program, false}, rater{other, false})
	p := asks("p", "1", "y")
	p.Annotations = map[string]string{"likes": "b"}
	synctest.Test(t, func(t *testing.T) {
		if d := profile.Schedule(p, three()); d.Node != "b" || program.said() != "" || other.said() != "p:abc rate b" {
			t.Errorf("decided\n%v", d)
		}
	})
}

// tired is a predicate that can examine pods so many times.
type tired struct {
	scheduler.Predicate
	times *atomic.Int32
}

func (p tired) Prepare(*corev1.Pod, *scheduler.Snapshot) (scheduler.Prepared, error) {
	if p.times.Add(-1) < 0 {
		return scheduler.Prepared{}, errors.New("cannot look")
	}
	return scheduler.Prepared{}, nil
}

// Preemption for a pod that programs are asked about is left when the pod cannot be examined again, and says so.
func TestSlowPreemptionThatCannotLook(t *testing.T) {
	var times atomic.Int32
	times.Store(1)
	full := tired{refusing("Full", "full"), &times}
	never := scheduler.PreemptorFunc("Preempts", func(context.Context, *scheduler.Trial) (*scheduler.Nomination, error) {
		t.Error("asked to preempt")
		return nil, nil
	})
	runProfile(t, also(full, &slow{name: "x"}, never), scheduler.Options{}, func(t *testing.T, s *server, _ *scheduler.Scheduler) {
		s.pods.Put(nominated(asks("p", "1", "x"), "elsewhere"))
		after(time.Second)
		const message = `0/1 nodes are available: 1 full. running PreFilter plugin "Full": cannot look`
		same(t, []string{"0s p: Warning Scheduling/FailedScheduling " + message, "0s p: PodScheduled=False Unschedulable: " + message}, s.said())
		same(t, nil, s.nominated()) // the pod keeps its own
	}, node("a", "4", "8Gi"))
}

// A pod that finishes during its preemption, and runs again, is tried again.
func TestPodRunsAgainAfterSlowPreemption(t *testing.T) {
	preemptor := scheduler.PreemptorFunc("Preempts", func(ctx context.Context, _ *scheduler.Trial) (*scheduler.Nomination, error) {
		return nil, pause(ctx)
	})
	runProfile(t, also(&slow{name: "x"}, preemptor), scheduler.Options{}, func(t *testing.T, s *server, sched *scheduler.Scheduler) {
		p := asks("p", "4", "x")
		s.pods.Put(p)
		after(time.Second)
		p = p.DeepCopy()
		p.Status.Phase = corev1.PodFailed
		s.pods.Put(p)
		after(10 * time.Second)
		same(t, nil, s.said())
		s.nodes.Put(node("b", "4", "8Gi"))
		p = p.DeepCopy()
		p.Status.Phase = corev1.PodPending
		s.pods.Put(p)
		after(10 * time.Second)
		same(t, 0, sched.Counts().Gated)
		same(t, "b", s.where()["p"])
	}, node("a", "1", "8Gi"))
}

// A pod that is to go is not tried, which is said after each of its changes, whether programs are asked about it or not.
func TestPodThatIsToGo(t *testing.T) {
	program := &slow{name: "x"}
	runProfile(t, also(program), scheduler.Options{}, func(t *testing.T, s *server, _ *scheduler.Scheduler) {
		for i, p := range []*corev1.Pod{ending(asks("asking", "1", "x")), ending(pod("plain", "1", ""))} {
			s.pods.Put(p)
			synctest.Wait()
			says := []string{fmt.Sprintf("0s %s: Warning Scheduling/FailedScheduling skip schedule deleting pod: default/%[1]s", p.Name)}
			same(t, says, s.said())
			p = refused(p.DeepCopy(), fmt.Sprint(i))
			s.pods.Put(p)
			synctest.Wait()
			same(t, says, s.said())
		}
		same(t, "", program.said())
	}, node("a", "4", "8Gi"))
}
