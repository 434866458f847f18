package scheduler_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/scheduler"
)

// The pod is not tried again before it is seen that its victims go, even if they have gone long ago.
func TestPreemptionUntilVictimsAreSeenToGo(t *testing.T) {
	for name, low := range map[string]*corev1.Pod{
		"gone":  on(pod("low", "3", ""), "a"),
		"going": graceful(on(pod("low", "3", ""), "a")),
	} {
		t.Run(name, func(t *testing.T) {
			run(t, scheduler.Options{}, func(t *testing.T, s *server, sched *scheduler.Scheduler) {
				s.pods.Put(low)
				synctest.Wait()
				s.failing(func(_ context.Context, name string) error {
					if name == "low" {
						s.lag.Hold()
					}
					return nil
				})
				s.pods.Put(important(pod("vip", "3", ""), 10))
				after(time.Minute)
				s.said()
				s.nodes.Put(node("b", "1", "8Gi"))
				after(time.Minute)
				same(t, nil, s.said())
				same(t, "-", s.where()["vip"])
				s.nodes.Put(node("c", "4", "8Gi")) // which the pod may take when its victims have ended, or are about to
				after(time.Minute)
				same(t, "-", s.where()["vip"])
				same(t, 1, sched.Counts().Gated)
				s.lag.Resume()
				after(time.Minute)
				same(t, 0, sched.Counts().Gated)
				same(t, map[string]string{"gone": "a", "going": "c"}[name], s.where()["vip"])
			}, node("a", "4", "8Gi"))
		})
	}
}

// Victims are asked to go once, however often the scheduler rests afterwards, also if it lets events settle.
func TestVictimsAreAskedOnce(t *testing.T) {
	for _, settle := range []time.Duration{0, time.Millisecond} {
		run(t, scheduler.Options{Settle: settle}, func(t *testing.T, s *server, _ *scheduler.Scheduler) {
			for _, name := range []string{"low0", "low1", "low2"} {
				s.pods.Put(graceful(on(pod(name, "1", ""), "a")))
			}
			after(time.Second)
			s.pods.Put(important(pod("vip", "3", ""), 10))
			after(time.Second)
			deleted := 0
			for _, said := range s.said() {
				if strings.HasSuffix(said, ": deleted") {
					deleted++
				}
			}
			same(t, 3, deleted)
			for _, name := range []string{"other0", "other1"} {
				s.pods.Put(pod(name, "1", ""))
				after(time.Second)
			}
			for _, said := range s.said() {
				if strings.Contains(said, "deleted") || strings.Contains(said, "Preempted") {
					t.Errorf("settle %s: %s", settle, said)
				}
			}
		}, node("a", "3", "8Gi"))
	}
}

// With Settle, preemptions of several pods follow one another, and each removes its own victims.
func TestPreemptionsInTurn(t *testing.T) {
	run(t, scheduler.Options{Settle: time.Millisecond}, func(t *testing.T, s *server, _ *scheduler.Scheduler) {
		for _, n := range []string{"a", "b"} {
			s.pods.Put(on(pod("low-"+n, "3", ""), n))
		}
		after(time.Second)
		var inside, most atomic.Int32
		s.failing(func(_ context.Context, name string) error {
			if !strings.HasPrefix(name, "low") {
				return nil
			}
			most.Store(max(most.Load(), inside.Add(1)))
			time.Sleep(time.Second)
			inside.Add(-1)
			return nil
		})
		s.pods.Put(important(pod("vip0", "3", ""), 10))
		s.pods.Put(important(pod("vip1", "3", ""), 9))
		after(time.Minute)
		where := s.where()
		same(t, 2, len(where))
		if where["vip0"] == "-" || where["vip1"] == "-" || where["vip0"] == where["vip1"] {
			t.Errorf("they are at %v", where)
		}
		same(t, 1, most.Load())
	}, node("a", "4", "8Gi"), node("b", "4", "8Gi"))
}

// The pod waits for the last of its victims to go, not only for the first.
func TestPreemptionUntilTheLastVictimGoes(t *testing.T) {
	run(t, scheduler.Options{}, func(t *testing.T, s *server, _ *scheduler.Scheduler) {
		for _, name := range []string{"low0", "low1", "low2"} {
			s.pods.Put(graceful(on(pod(name, "1", ""), "a")))
		}
		synctest.Wait()
		s.failing(func(_ context.Context, name string) error {
			if strings.HasPrefix(name, "low") {
				s.lag.Hold()
			}
			return nil
		})
		s.pods.Put(important(pod("vip", "3", ""), 10))
		after(time.Minute)
		s.failing(nil)
		s.lag.Resume()
		for _, name := range []string{"low0", "low1"} {
			s.pods.Delete("default", name)
			after(time.Second)
			same(t, "-", s.where()["vip"])
		}
		s.pods.Delete("default", "low2")
		after(time.Minute)
		same(t, "a", s.where()["vip"])
	}, node("a", "3", "8Gi"))
}

// Nodes that are refused for the same reasons are counted together, wherever they are.
func TestReasonsAreCounted(t *testing.T) {
	small := func(name string) *corev1.Node { return node(name, "1", "8Gi") }
	apart := func(name string) *corev1.Node {
		return tainted(node(name, "4", "8Gi"), corev1.TaintEffectNoSchedule)
	}
	run(t, scheduler.Options{}, func(t *testing.T, _ *server, sched *scheduler.Scheduler) {
		d := sched.Explain(pod("p", "2", ""))
		if d.Err == nil || d.Err.Error() != "0/6 nodes are available: 3 Insufficient cpu, 3 node(s) had untolerated taint(s)." {
			t.Errorf("got %v", d.Err)
		}
	}, small("a"), apart("b"), apart("c"), small("d"), apart("e"), small("f"))
}

// What was found for a pod while programs were asked is nothing to another pod that has got its name.
func TestSlowPreemptionForAPodThatIsReplaced(t *testing.T) {
	preemptor := scheduler.PreemptorFunc("Preempts", func(ctx context.Context, tr *scheduler.Trial) (*scheduler.Nomination, error) {
		if tr.Pod().UID == "second" {
			return nil, nil
		}
		n, _ := tr.Node("a")
		return &scheduler.Nomination{Node: "a", Victims: []*corev1.Pod{n.Pods[0].Pod}, Message: "made room"}, pause(ctx)
	})
	runProfile(t, also(&slow{name: "x"}, preemptor), scheduler.Options{}, func(t *testing.T, s *server, sched *scheduler.Scheduler) {
		s.pods.Put(on(pod("low", "4", ""), "a"))
		synctest.Wait()
		s.pods.Put(asks("vip", "4", "x"))
		after(time.Second)
		s.pods.Delete("default", "vip")
		later := second("4")
		later.Spec.SchedulerName = "another" // whose pods are none of this scheduler's
		s.pods.Put(later)
		after(time.Minute)
		same(t, nil, s.said())
		same(t, nil, s.nominated())
		same(t, map[string]string{"low": "a", "vip": "-"}, s.where())

		s.pods.Put(asks("other", "4", "x"))
		after(time.Second)
		s.pods.Delete("default", "other")
		replaced := pod("other", "5", "")
		replaced.UID = "second"
		s.pods.Put(replaced)
		after(time.Minute)
		for _, said := range s.said() {
			if strings.Contains(said, "made room") || strings.Contains(said, "deleted") {
				t.Error(said)
			}
		}
		same(t, nil, s.nominated())
		same(t, map[string]string{"low": "a", "vip": "-", "other": "-"}, s.where())
		same(t, 1, sched.Counts().Waiting)
	}, node("a", "4", "8Gi"))
}

// ratesOnly is a program that scores nodes and refuses none.
type ratesOnly struct{ best string }

func (ratesOnly) Name() string { return "Rates" }

func (ratesOnly) Score(*corev1.Pod, *scheduler.NodeInfo) int64 { return 0 }

func (r ratesOnly) Rate(_ context.Context, _ *corev1.Pod, nodes []*scheduler.NodeInfo) ([]int64, error) {
	scores := make([]int64, len(nodes))
	for i, n := range nodes {
		if n.Name == r.best {
			scores[i] = scheduler.MaxScore
		}
	}
	return scores, nil
}

// Programs that only score nodes are asked, too.
func TestRatersThatRefuseNothing(t *testing.T) {
	for _, best := range []string{"a", "b", "c"} {
		profile := scheduler.Profile{Plugins: []scheduler.Enabled{{Plugin: ratesOnly{best}, Weight: 1}}}
		runProfile(t, profile, scheduler.Options{}, func(t *testing.T, s *server, sched *scheduler.Scheduler) {
			same(t, best, sched.Explain(pod("p", "1", "")).Node)
			s.pods.Put(pod("p", "1", ""))
			synctest.Wait()
			same(t, best, s.where()["p"])
		}, node("a", "4", "8Gi"), node("b", "4", "8Gi"), node("c", "4", "8Gi"))
	}
}
