package scheduler_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/keelson-dev/keelson/scheduler"
	"github.com/keelson-dev/keelson/scheduler/plugins"
)

// Pods that run again after they finished take their place again, or are scheduled again.
func TestPodRunsAgain(t *testing.T) {
	run(t, scheduler.Options{}, func(t *testing.T, s *server, sched *scheduler.Scheduler) {
		for _, node := range []string{"n", ""} {
			p := on(pod("web", "3", "1Gi"), node)
			for _, phase := range []corev1.PodPhase{corev1.PodSucceeded, corev1.PodFailed} {
				p = p.DeepCopy()
				p.Status.Phase = phase
				s.pods.Put(p)
				synctest.Wait()
				same(t, 0, len(sched.Snapshot().Node("n").Pods))
			}
			p = p.DeepCopy()
			p.Status.Phase = corev1.PodPending
			s.pods.Put(p)
			synctest.Wait()
			same(t, "n", s.where()["web"])
			same(t, 1, len(sched.Snapshot().Node("n").Pods))
			s.pods.Delete("default", "web")
			synctest.Wait()
		}
	}, node("n", "4", "8Gi"))
}

// A pod that another scheduler's binding, or its end, takes from the queue is tried no more.
func TestPodLeavesTheQueue(t *testing.T) {
	for name, goes := range map[string]func(*server, *corev1.Pod){
		"bound":    func(s *server, p *corev1.Pod) { s.pods.Put(on(p, "elsewhere")) },
		"deleted":  func(s *server, p *corev1.Pod) { s.pods.Delete("default", p.Name) },
		"finished": func(s *server, p *corev1.Pod) { p = p.DeepCopy(); p.Status.Phase = corev1.PodFailed; s.pods.Put(p) },
		"replaced": func(s *server, p *corev1.Pod) {
			p = pod(p.Name, "1", "1Gi")
			p.UID, p.Spec.SchedulerName = "another", "somebody"
			s.pods.Put(p)
		},
	} {
		t.Run(name, func(t *testing.T) {
			run(t, scheduler.Options{}, func(t *testing.T, s *server, sched *scheduler.Scheduler) {
				p := pod("web", "8", "1Gi")
				s.pods.Put(p)
				after(time.Minute)
				same(t, 1, sched.Counts().Waiting)
				s.said()
				goes(s, p)
				synctest.Wait()
				s.nodes.Put(node("big", "8", "8Gi"))
				after(time.Minute)
				c := sched.Counts()
				same(t, 0, c.Active+c.Backoff+c.Waiting+c.Gated)
				same(t, nil, s.said())
			}, node("n", "4", "8Gi"))
		})
	}
}

// A pod that a binder bound elsewhere than decided counts there alone, and there it goes.
func TestPodIsBoundElsewhere(t *testing.T) {
	var s *server
	elsewhere := scheduler.BinderFunc("Elsewhere", func(_ context.Context, pod *corev1.Pod, _ string) error {
		s.pods.Put(on(pod, "m"))
		return nil
	})
	profile := also(elsewhere)
	profile.Plugins = append(profile.Plugins, scheduler.Enabled{Plugin: prepares{name: "OnlyN", keptFrom: "m"}})
	runProfile(t, profile, scheduler.Options{}, func(t *testing.T, is *server, sched *scheduler.Scheduler) {
		s = is
		requested := func(node string) int64 { return sched.Snapshot().Node(node).Requested.MilliCPU }
		s.pods.Put(pod("web", "1", "1Gi"))
		synctest.Wait()
		same(t, []int64{0, 1000}, []int64{requested("n"), requested("m")})
		s.pods.Delete("default", "web")
		synctest.Wait()
		same(t, []int64{0, 0}, []int64{requested("n"), requested("m")})
	}, node("n", "4", "8Gi"), node("m", "4", "8Gi"))
}

// What a predicate without hints refused is tried again after each event that there is, a node's end included, and not after
// conditions that a scheduler writes; other conditions requeue it.
func TestWhatHasPodsTriedAgain(t *testing.T) {
	for name, tt := range map[string]struct {
		happens func(*server)
		tried   bool
	}{
		"a node goes": {func(s *server) { s.nodes.Delete("", "m") }, true},
		"its verdict": {func(s *server) { has(s, corev1.PodScheduled) }, false},
		"its health":  {func(s *server) { has(s, corev1.PodReady) }, true},
	} {
		t.Run(name, func(t *testing.T) {
			runProfile(t, also(refusing("R", "no")), scheduler.Options{}, func(t *testing.T, s *server, _ *scheduler.Scheduler) {
				s.pods.Put(pod("web", "1", "1Gi"))
				after(time.Minute)
				s.said()
				tt.happens(s)
				after(10 * time.Second)
				if said := s.said(); tt.tried != (len(said) > 0 && strings.Contains(said[0], "FailedScheduling")) {
					t.Errorf("said %q", said)
				}
			}, node("n", "4", "8Gi"), node("m", "4", "8Gi"))
		})
	}
}

// has gives the pod one more condition.
func has(s *server, condition corev1.PodConditionType) {
	p, _ := s.pods.Get("default", "web")
	p = p.DeepCopy()
	p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: condition, Status: corev1.ConditionFalse})
	s.pods.Put(p)
}

// A binder may say which events help those that it refuses, which is none: predicates hear of all the same.
func TestBinderWithoutEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, node("n", "4", "8Gi"))
		profile := profileOf(plugins.NodeUnschedulable{}, plugins.TaintToleration{}, deafBinder{binding(s).Plugins[0].Plugin.(scheduler.Binder)})
		s.nodes.Put(tainted(node("n", "4", "8Gi"), corev1.TaintEffectNoSchedule))
		s.schedule(t, profile, scheduler.Options{}, func(*scheduler.Scheduler) {
			s.pods.Put(pod("web", "1", "1Gi"))
			after(time.Minute)
			s.nodes.Put(node("m", "8", "8Gi"))
			synctest.Wait()
			same(t, "m", s.where()["web"])
		})
	})
}

type deafBinder struct{ scheduler.Binder }

func (deafBinder) Events() scheduler.EventKind               { return 0 }
func (deafBinder) MayHelp(*corev1.Pod, scheduler.Event) bool { return false }

// What happens to a pod after its binding and before the scheduler sees that is of no concern to those that might have refused it.
func TestPodChangesBeforeItsBindingIsSeen(t *testing.T) {
	lies := scheduler.BinderFunc("Lies", func(context.Context, *corev1.Pod, string) error { return nil })
	reserves := scheduler.ReserverFunc("Reserves", func(context.Context, *corev1.Pod, string) (func(), error) {
		return func() { t.Error("what a bound pod holds is given back") }, nil
	})
	runProfile(t, also(lies, reserves), scheduler.Options{}, func(t *testing.T, s *server, sched *scheduler.Scheduler) {
		p := pod("web", "1", "1Gi")
		s.pods.Put(p)
		synctest.Wait()
		p = p.DeepCopy()
		p.Labels = map[string]string{"a": "b"}
		s.pods.Put(p)
		synctest.Wait()
		same(t, 1000, sched.Snapshot().Node("n").Requested.MilliCPU)
		s.pods.Put(on(p, "n"))
		synctest.Wait()
		same(t, 1000, sched.Snapshot().Node("n").Requested.MilliCPU)
	}, node("n", "4", "8Gi"))
}

// A pod whose binding failed is tried as it is by then.
func TestPodChangesWhileItIsPrepared(t *testing.T) {
	var labels []string
	tried := 0
	fails := scheduler.PreBinderFunc("Fails", func(_ context.Context, pod *corev1.Pod, _ string) error {
		labels = append(labels, pod.Labels["l"])
		if tried++; tried == 1 {
			time.Sleep(time.Second)
			return errors.New("boom")
		}
		return nil
	})
	runProfile(t, also(fails), scheduler.Options{}, func(t *testing.T, s *server, _ *scheduler.Scheduler) {
		s.failing(func(context.Context, string) error {
			return apierrors.NewForbidden(corev1.Resource("pods"), "web", nil)
		}) // its status does not tell
		p := pod("web", "1", "1Gi")
		s.pods.Put(p)
		synctest.Wait()
		p = p.DeepCopy()
		p.Labels = map[string]string{"l": "new"}
		s.pods.Put(p)
		after(5 * time.Second)
		same(t, []string{"", "new"}, labels[:2])
	}, node("n", "4", "8Gi"))
}

// Preemptors see the decision whether or not somebody else does.
func TestPreemptorSeesTheDecision(t *testing.T) {
	for _, seen := range []func(scheduler.Decision){nil, func(scheduler.Decision) {}} {
		asked := 0
		profile := preempting(func(d scheduler.Decision, _ *scheduler.Snapshot) (*scheduler.Nomination, error) {
			asked++
			same(t, "web", d.Pod.Name)
			same(t, 1, len(d.Verdicts))
			return nil, nil
		})
		runProfile(t, profile, scheduler.Options{OnDecision: seen}, func(t *testing.T, s *server, _ *scheduler.Scheduler) {
			s.pods.Put(pod("web", "8", "1Gi"))
			synctest.Wait()
		}, node("n", "4", "8Gi"))
		same(t, 1, asked)
	}
}

// Those of the same priority are in each other's way, and one that goes makes room.
func TestNominationOfAnEqualGoes(t *testing.T) {
	runProfile(t, preempting(says(nil, scheduler.Refuse("no room"))), scheduler.Options{}, func(t *testing.T, s *server, _ *scheduler.Scheduler) {
		s.pods.Put(nominated(important(pod("vip", "8", "1Gi"), 10), "n"))
		synctest.Wait()
		s.pods.Put(important(pod("equal", "1", "1Gi"), 10))
		after(time.Minute)
		same(t, "-", s.where()["equal"])
		s.pods.Delete("default", "vip")
		after(20 * time.Second)
		same(t, "n", s.where()["equal"])
	}, node("n", "4", "8Gi"))
}
