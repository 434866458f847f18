package scheduler_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/keelson-dev/keelson/scheduler"
)

// graceful has a pod terminate until the test deletes it.
func graceful(p *corev1.Pod) *corev1.Pod {
	p.Spec.TerminationGracePeriodSeconds = new(int64)
	return p
}

// A pod of a high priority takes the node of the cheapest victim, once that has ended.
func TestPreemption(t *testing.T) {
	var decisions []scheduler.Decision
	o := scheduler.Options{OnDecision: func(d scheduler.Decision) { decisions = append(decisions, d) }}
	run(t, o, func(t *testing.T, s *server, sched *scheduler.Scheduler) {
		s.pods.Put(graceful(on(important(pod("dear", "3", "1Gi"), 5), "a")))
		s.pods.Put(graceful(on(pod("cheap", "3", "1Gi"), "b")))
		s.pods.Put(graceful(on(pod("spared", "1", "1Gi"), "b")))
		synctest.Wait()
		s.pods.Put(important(pod("vip", "3", "1Gi"), 10))
		synctest.Wait()
		const message = "0/2 nodes are available: 2 Insufficient cpu. preemption: found a potential placement for pod on node b, preempting 1 victims"
		same(t, []string{
			"0s vip: Warning Scheduling/FailedScheduling " + message,
			"0s vip: PodScheduled=False Unschedulable: " + message,
			"0s cheap: DisruptionTarget=True PreemptionByScheduler: default-scheduler: preempting to accommodate a higher priority pod",
			"0s cheap: deleted",
			"0s cheap: Normal Preempting/Preempted Preempted by pod vip-uid on node b (Pod vip vip-uid)",
		}, s.said())
		same(t, []string{"vip:b"}, s.nominated())
		d := decisions[len(decisions)-1]
		same(t, "b", d.Preemption.Node)
		same(t, "cheap", d.Preemption.Victims[0].Name)
		if want := "  it is nominated for b and preempts default/cheap\n"; !strings.Contains(d.String(), want) {
			t.Errorf("the decision is\n%v", d)
		}

		// As long as the victim terminates, nobody else is preempted, and nobody of a lower priority gets the room.
		s.nodes.Put(node("a", "4", "9Gi"))
		labelled, _ := s.pods.Get("default", "vip")
		labelled = labelled.DeepCopy()
		labelled.Labels = map[string]string{"again": "please"}
		s.pods.Put(labelled)
		s.pods.Put(important(pod("later", "3", "1Gi"), 1))
		after(10 * time.Second)
		for _, said := range s.said() {
			if strings.Contains(said, "deleted") || strings.Contains(said, "vip") && !strings.Contains(said, "not eligible due to a terminating pod on the nominated node.") {
				t.Error(said)
			}
		}
		same(t, 1, len(sched.Snapshot().Nominated("b")))
		s.pods.Delete("default", "cheap")
		after(time.Second)
		same(t, map[string]string{"dear": "a", "spared": "b", "vip": "b", "later": "-"}, s.where())
		same(t, 0, len(sched.Snapshot().Nominated("b")))
	}, node("a", "4", "8Gi"), node("b", "4", "8Gi"))
}

// If nothing can be gained, the message says why.
func TestNoPreemption(t *testing.T) {
	const full = "0/2 nodes are available: 2 Insufficient cpu. preemption: "
	never := corev1.PreemptNever
	for name, tt := range map[string]struct {
		pod  *corev1.Pod
		want string
	}{
		"no priority":  {pod("p", "1", ""), full + "0/2 nodes are available: 2 No preemption victims found for incoming pod."},
		"too large":    {important(pod("p", "4", ""), 1), full + "0/2 nodes are available: 1 No preemption victims found for incoming pod, 1 Preemption is not helpful for scheduling."},
		"not enough":   {important(pod("p", "2500m", ""), 1), full + "0/2 nodes are available: 1 Insufficient cpu, 1 No preemption victims found for incoming pod."},
		"not eligible": {important(pod("p", "1", ""), 1), full + "not eligible due to preemptionPolicy=Never."},
	} {
		t.Run(name, func(t *testing.T) {
			run(t, scheduler.Options{}, func(t *testing.T, s *server, _ *scheduler.Scheduler) {
				s.pods.Put(on(pod("low", "2", ""), "a"))
				s.pods.Put(on(important(pod("mid", "1", ""), 1), "a"))
				s.pods.Put(on(important(pod("high", "4", ""), 2), "b"))
				synctest.Wait()
				if name == "not eligible" {
					tt.pod.Spec.PreemptionPolicy = &never
				}
				s.pods.Put(nominated(tt.pod, "gone"))
				synctest.Wait()
				same(t, "0s p: PodScheduled=False Unschedulable: "+tt.want, s.said()[1])
				got, _ := s.pods.Get("default", "p")
				same(t, map[bool]string{true: "gone", false: ""}[name == "not eligible"], got.Status.NominatedNodeName)
			}, node("a", "3", "8Gi"), node("b", "4", "8Gi"))
		})
	}
}

// The pod is not tried again while its victims are being asked to go, whatever happens, and at once afterwards if
// something happened meanwhile.
func TestNotTriedDuringPreemption(t *testing.T) {
	run(t, scheduler.Options{}, func(t *testing.T, s *server, sched *scheduler.Scheduler) {
		for i := range 3 {
			s.pods.Put(on(pod(fmt.Sprint("low", i), "1", ""), "a"))
		}
		synctest.Wait()
		s.failing(func(_ context.Context, name string) error {
			if name == "low2" {
				time.Sleep(20 * time.Second)
			}
			return nil
		})
		s.pods.Put(important(pod("vip", "3", ""), 10))
		after(5 * time.Second) // two victims are gone
		same(t, map[string]string{"vip": "-", "low2": "a"}, s.where())
		same(t, 1, sched.Counts().Gated)
		s.said()
		s.nodes.Put(node("b", "4", "8Gi")) // an event that helps
		after(5 * time.Second)
		same(t, nil, s.said())
		after(time.Minute)
		same(t, map[string]string{"vip": "a"}, s.where())
	}, node("a", "3", "8Gi"))
}

// Victims that are not bound yet lose their node in memory.
func TestPreemptionOfUnboundPods(t *testing.T) {
	for name, tt := range map[string]struct {
		waits   scheduler.Plugin
		victim  string
		message string
	}{
		"waiting": {scheduler.PermitterFunc("Waits", func(_ context.Context, p *corev1.Pod, _ string) (*scheduler.Wait, error) {
			if p.Name != "low" {
				return nil, nil
			}
			return scheduler.NewWait(time.Minute), nil
		}), "waiting on permit for pod: preempted", ""},
		"preparing": {scheduler.PreBinderFunc("Waits", func(ctx context.Context, p *corev1.Pod, _ string) error {
			if p.Name != "low" {
				return nil
			}
			<-ctx.Done()
			return fmt.Errorf("attaching: %w", ctx.Err())
		}), `running PreBind plugin "Waits": preempted by DefaultPreemption`, ""},
		"preparing, finishes": {scheduler.PreBinderFunc("Waits", func(ctx context.Context, p *corev1.Pod, _ string) error {
			if p.Name == "low" {
				<-ctx.Done()
			}
			return nil
		}), "preempted by DefaultPreemption", ""},
	} {
		t.Run(name, func(t *testing.T) {
			profile := defaults()
			profile.Plugins = append(profile.Plugins, scheduler.Enabled{Plugin: tt.waits})
			runProfile(t, profile, scheduler.Options{}, func(t *testing.T, s *server, _ *scheduler.Scheduler) {
				s.pods.Put(pod("low", "3", ""))
				synctest.Wait()
				s.said()
				s.pods.Put(important(pod("vip", "3", ""), 10))
				after(time.Second)
				said := s.said()
				for _, want := range []string{
					"0s low: Normal Preempting/Preempted Preempted by pod vip-uid on node a (in kube-scheduler memory). (Pod vip vip-uid)",
					"0s low: Warning Scheduling/FailedScheduling " + tt.victim,
					"0s low: PodScheduled=False SchedulerError: " + tt.victim,
					"0s vip: Normal Binding/Scheduled Successfully assigned default/vip to a",
				} {
					if !slices.Contains(said, want) {
						t.Errorf("no %q in %q", want, said)
					}
				}
				same(t, map[string]string{"low": "-", "vip": "a"}, s.where())
			}, node("a", "4", "8Gi"))
		})
	}
}

// A victim whose binding is under way is deleted.
func TestPreemptionOfPodsBeingBound(t *testing.T) {
	run(t, scheduler.Options{}, func(t *testing.T, s *server, _ *scheduler.Scheduler) {
		slow := true
		s.failing(func(_ context.Context, name string) error {
			if name == "low" && slow {
				slow = false
				time.Sleep(10 * time.Second)
			}
			return nil
		})
		s.pods.Put(pod("low", "3", ""))
		synctest.Wait()
		s.pods.Put(important(pod("vip", "3", ""), 10))
		after(time.Minute)
		same(t, map[string]string{"vip": "a"}, s.where())
	}, node("a", "4", "8Gi"))
}

// If a victim cannot be removed, the pod is tried again after a back-off, with what there is then.
func TestPreemptionFails(t *testing.T) {
	var log logged
	run(t, scheduler.Options{Logger: log.logger()}, func(t *testing.T, s *server, _ *scheduler.Scheduler) {
		s.pods.Put(on(pod("low", "3", ""), "a"))
		synctest.Wait()
		var refused atomic.Int32
		s.failing(func(_ context.Context, name string) error {
			if name == "low" && refused.Load() < 3 {
				refused.Add(1)
				return apierrors.NewForbidden(corev1.Resource("pods"), name, errors.New("no"))
			}
			return nil
		})
		s.pods.Put(important(pod("vip", "3", ""), 10))
		after(time.Second)
		same(t, 1, refused.Load())
		after(time.Minute)
		same(t, 3, refused.Load())
		same(t, map[string]string{"vip": "a"}, s.where())
	}, node("a", "4", "8Gi"))
	if !strings.Contains(log.String(), `preempting pod default/low: pods \"low\" is forbidden`) {
		t.Errorf("logged %s", log.String())
	}
}

// A victim that has been replaced by another pod of its name has gone; the other one stays.
func TestPreemptionOfReplacedPod(t *testing.T) {
	run(t, scheduler.Options{}, func(t *testing.T, s *server, _ *scheduler.Scheduler) {
		s.pods.Put(on(pod("low", "3", ""), "a"))
		synctest.Wait()
		replaced := false
		s.failing(func(_ context.Context, name string) error {
			if name == "low" && !replaced {
				replaced = true
				s.pods.Delete("default", "low")
				other := on(important(pod("low", "3", ""), 20), "b")
				other.UID = "other"
				s.pods.Put(other)
			}
			return nil
		})
		s.pods.Put(important(pod("vip", "3", ""), 10))
		after(time.Minute)
		same(t, map[string]string{"vip": "a", "low": "b"}, s.where())
		for _, said := range s.said() {
			if strings.Contains(said, "deleted") || strings.Contains(said, "Preempted") {
				t.Error(said)
			}
		}
	}, node("a", "4", "8Gi"), tainted(node("b", "4", "8Gi"), corev1.TaintEffectNoSchedule))
}

// Pods of lower priority lose their nominations for the node, others keep theirs.
func TestPreemptionTakesNominations(t *testing.T) {
	run(t, scheduler.Options{}, func(t *testing.T, s *server, _ *scheduler.Scheduler) {
		s.pods.Put(graceful(on(pod("low", "2", ""), "a")))
		s.pods.Put(graceful(on(pod("lower", "2", ""), "a")))
		synctest.Wait()
		s.pods.Put(important(pod("mid", "2", ""), 5))
		synctest.Wait()
		same(t, []string{"mid:a"}, s.nominated())
		s.pods.Put(important(pod("vip", "4", ""), 10))
		synctest.Wait()
		same(t, []string{"mid:a", "vip:a", "mid:"}, s.nominated())
		s.pods.Delete("default", "low")
		s.pods.Delete("default", "lower")
		after(time.Minute)
		same(t, map[string]string{"vip": "a", "mid": "-"}, s.where())
	}, node("a", "4", "8Gi"))
}

// held is a gate that opens without telling.
type held struct{ open *atomic.Bool }

func (held) Name() string { return "Held" }

func (h held) Holds(pod *corev1.Pod) *scheduler.Refusal {
	if pod.UID == "second" && !h.open.Load() {
		return scheduler.Refuse("held")
	}
	return nil
}

func (held) Events() scheduler.EventKind               { return 0 }
func (held) MayHelp(*corev1.Pod, scheduler.Event) bool { return true }

// second is another pod named vip.
func second(cpu string) *corev1.Pod {
	p := important(pod("vip", cpu, ""), 10)
	p.UID = "second"
	return p
}

// The end of a preemption is no news for a pod of the same name that came later.
func TestPreemptionForAPodThatIsReplaced(t *testing.T) {
	var open atomic.Bool
	profile := defaults()
	profile.Plugins = append(profile.Plugins, scheduler.Enabled{Plugin: held{&open}})
	runProfile(t, profile, scheduler.Options{}, func(t *testing.T, s *server, sched *scheduler.Scheduler) {
		s.pods.Put(graceful(on(pod("low", "3", ""), "a")))
		synctest.Wait()
		s.slowly("low", 1, 20*time.Second)
		s.pods.Put(important(pod("vip", "3", ""), 10))
		after(time.Second)
		s.pods.Delete("default", "vip")
		s.pods.Put(second("1"))
		synctest.Wait()
		same(t, 1, sched.Counts().Gated)
		open.Store(true)
		after(time.Minute)
		same(t, map[string]string{"vip": "-", "low": "a"}, s.where())
		same(t, 1, sched.Counts().Gated)
	}, node("a", "4", "8Gi"))
}

// Nor is that it failed.
func TestPreemptionThatFailsForAPodThatIsReplaced(t *testing.T) {
	run(t, scheduler.Options{}, failsFor(func(s *server) int { s.pods.Put(second("5")); return 1 }), node("a", "4", "8Gi"))
}

// It concerns nobody if the pod is gone.
func TestPreemptionThatFailsForAPodThatIsGone(t *testing.T) {
	run(t, scheduler.Options{}, failsFor(func(*server) int { return 0 }), node("a", "4", "8Gi"))
}

// failsFor has a preemption fail after its pod was deleted. follow does more, and returns how many pods wait afterwards.
func failsFor(follow func(*server) int) func(*testing.T, *server, *scheduler.Scheduler) {
	return func(t *testing.T, s *server, sched *scheduler.Scheduler) {
		s.pods.Put(graceful(on(pod("low", "3", ""), "a")))
		synctest.Wait()
		s.failing(func(_ context.Context, name string) error {
			if name != "low" {
				return nil
			}
			time.Sleep(20 * time.Second)
			return apierrors.NewForbidden(corev1.Resource("pods"), name, errors.New("no"))
		})
		s.pods.Put(important(pod("vip", "3", ""), 10))
		after(time.Second)
		s.pods.Delete("default", "vip")
		waiting := follow(s)
		after(10 * time.Second)
		same(t, waiting, sched.Counts().Waiting)
		s.said()
		after(time.Minute)
		same(t, nil, s.said())
		same(t, waiting, sched.Counts().Waiting)
	}
}

// A victim that leaves its node by itself before its turn comes is left alone.
func TestPreemptionOfPodsThatLeave(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(*server)
		where  string // low is in the end
	}{
		"it waits for a node":    {func(*server) {}, "-"},
		"it is to go to another": {func(s *server) { s.nodes.Put(node("b", "3", "8Gi")) }, "b"},
	} {
		t.Run(name, func(t *testing.T) {
			permits := map[string]*scheduler.Wait{"a": scheduler.NewWait(time.Hour), "b": scheduler.NewWait(time.Hour)}
			waits := scheduler.PermitterFunc("Waits", func(_ context.Context, p *corev1.Pod, node string) (*scheduler.Wait, error) {
				if p.Name == "low" {
					return permits[node], nil
				}
				return nil, nil
			})
			profile := defaults()
			profile.Plugins = append(profile.Plugins, scheduler.Enabled{Plugin: waits})
			runProfile(t, profile, scheduler.Options{}, func(t *testing.T, s *server, _ *scheduler.Scheduler) {
				s.pods.Put(pod("low", "3", ""))
				synctest.Wait()
				s.slowly("vip", 1, 20*time.Second) // that it is nominated is written before its victims are asked to go
				s.pods.Put(important(pod("vip", "4", ""), 10))
				after(time.Second)
				permits["a"].Refuse("not now")
				after(time.Second)
				tt.change(s)
				after(time.Minute)
				permits["b"].Allow()
				synctest.Wait()
				same(t, map[string]string{"low": tt.where, "vip": "a"}, s.where())
				for _, said := range s.said() {
					if strings.Contains(said, "deleted") || strings.Contains(said, "Preempted") {
						t.Error(said)
					}
				}
			}, node("a", "4", "8Gi"))
		})
	}
}

// Once all victims are asked to go, and are about to, the pod may go elsewhere.
func TestPodGoesElsewhereWhileItsVictimsEnd(t *testing.T) {
	run(t, scheduler.Options{Writes: 1}, func(t *testing.T, s *server, _ *scheduler.Scheduler) {
		s.pods.Put(graceful(on(pod("low0", "2", ""), "a")))
		s.pods.Put(graceful(on(pod("low1", "2", ""), "a")))
		synctest.Wait()
		s.slowly("low1", 1, 5*time.Second)
		s.pods.Put(important(pod("vip", "4", ""), 10))
		after(10 * time.Second)
		s.nodes.Put(node("b", "4", "8Gi"))
		after(10 * time.Second)
		same(t, map[string]string{"low0": "a", "low1": "a", "vip": "b"}, s.where())
	}, node("a", "4", "8Gi"))
}

// A nomination that was never written is not taken back.
func TestPreemptionWithNominationsThatAreNotWritten(t *testing.T) {
	run(t, scheduler.Options{}, func(t *testing.T, s *server, sched *scheduler.Scheduler) {
		s.pods.Put(graceful(on(pod("low", "2", ""), "a")))
		s.pods.Put(graceful(on(pod("lower", "2", ""), "a")))
		synctest.Wait()
		var written atomic.Int32
		s.failing(func(_ context.Context, name string) error {
			if name != "mid" {
				return nil
			}
			written.Add(1)
			return apierrors.NewForbidden(corev1.Resource("pods"), name, errors.New("no"))
		})
		s.pods.Put(important(pod("mid", "2", ""), 5))
		synctest.Wait()
		same(t, 1, len(sched.Snapshot().Nominated("a")))
		s.pods.Put(important(pod("vip", "4", ""), 10))
		synctest.Wait()
		same(t, []string{"vip:a"}, s.nominated())
		same(t, 1, written.Load())
	}, node("a", "4", "8Gi"))
}

// That a victim is gone when it is to be deleted, or has another one's name, is no failure.
func TestPreemptionOfPodsThatAreGone(t *testing.T) {
	for name, other := range map[string]*corev1.Pod{"gone": nil, "replaced": on(important(pod("low", "1", ""), 20), "a")} {
		t.Run(name, func(t *testing.T) {
			var log logged
			run(t, scheduler.Options{Logger: log.logger()}, func(t *testing.T, s *server, _ *scheduler.Scheduler) {
				s.pods.Put(on(pod("low", "3", ""), "a"))
				synctest.Wait()
				var once atomic.Bool
				s.failing(func(_ context.Context, name string) error {
					if name != "low" || once.Swap(true) {
						return nil
					}
					s.pods.Delete("default", "low")
					if other == nil {
						return nil
					}
					other = other.DeepCopy()
					other.UID = "other"
					s.pods.Put(other)
					return apierrors.NewConflict(corev1.Resource("pods"), name, errors.New("UID is another"))
				})
				s.pods.Put(important(pod("vip", "3", ""), 10))
				after(time.Minute)
				same(t, "a", s.where()["vip"])
				for _, said := range s.said() {
					if strings.Contains(said, "deleted") || strings.Contains(said, "Preempted") {
						t.Error(said)
					}
				}
			}, node("a", "4", "8Gi"))
			same(t, "", log.String())
		})
	}
}

// A victim that is being bound is deleted, whether or not something was reserved for it.
func TestPreemptionOfPodsBeingBoundWithReservations(t *testing.T) {
	reserves := scheduler.ReserverFunc("Reserves", func(context.Context, *corev1.Pod, string) (func(), error) { return nil, nil })
	profile := defaults()
	profile.Plugins = append(profile.Plugins, scheduler.Enabled{Plugin: reserves})
	runProfile(t, profile, scheduler.Options{}, func(t *testing.T, s *server, _ *scheduler.Scheduler) {
		s.slowly("low", 1, 10*time.Second)
		s.pods.Put(pod("low", "3", ""))
		synctest.Wait()
		s.pods.Put(important(pod("vip", "3", ""), 10))
		after(time.Minute)
		same(t, map[string]string{"vip": "a"}, s.where())
		same(t, true, slices.ContainsFunc(s.said(), func(said string) bool { return strings.HasSuffix(said, "low: deleted") }))
	}, node("a", "4", "8Gi"))
}
