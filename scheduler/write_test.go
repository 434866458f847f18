package scheduler_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/scheduler"
)

func refusing(name, reason string) scheduler.Predicate {
	return scheduler.PredicateFunc(name, func(*corev1.Pod, *scheduler.NodeInfo) *scheduler.Refusal { return scheduler.Refuse(reason) })
}

// An event's text is cut where the API wants it to end, the condition's is not.
func TestLongMessages(t *testing.T) {
	const before, room = "0/1 nodes are available: 1 ", 1024
	for _, length := range []int{room - 1, room, room + 1} {
		reason := strings.Repeat("x", length-len(before)-len("."))
		runProfile(t, also(refusing("R", reason)), scheduler.Options{}, func(t *testing.T, s *server, _ *scheduler.Scheduler) {
			s.pods.Put(pod("web", "1", "1Gi"))
			synctest.Wait()
			said := s.said()
			message := before + reason + "."
			same(t, "0s web: PodScheduled=False Unschedulable: "+message, said[1])
			if length > room {
				message = message[:room-4] + " ..."
			}
			same(t, "0s web: Warning Scheduling/FailedScheduling "+message, said[0])
		}, node("n", "4", "8Gi"))
	}
}

// The condition is written when it says something new, and keeps the time since when it is false.
func TestCondition(t *testing.T) {
	const message = "0/1 nodes are available: 1 no."
	since := metav1.NewTime(time.Date(1999, 1, 1, 0, 0, 0, 0, time.UTC))
	ready := corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionFalse, Reason: "Unschedulable", Message: message}
	is := func(status corev1.ConditionStatus, reason, message string) corev1.PodCondition {
		return corev1.PodCondition{Type: corev1.PodScheduled, Status: status, Reason: reason, Message: message, LastTransitionTime: since}
	}
	probed := is("False", "Unschedulable", message)
	probed.LastProbeTime = since
	for name, tt := range map[string]struct {
		has           []corev1.PodCondition
		written, kept bool
	}{
		"none":              {nil, true, false},
		"another":           {[]corev1.PodCondition{ready}, true, false},
		"the same":          {[]corev1.PodCondition{ready, is("False", "Unschedulable", message)}, false, true},
		"of another reason": {[]corev1.PodCondition{is("False", "SchedulerError", message), ready}, true, true},
		"of another text":   {[]corev1.PodCondition{ready, is("False", "Unschedulable", "other")}, true, true},
		"true":              {[]corev1.PodCondition{is("True", "Unschedulable", message)}, true, false},
		"probed":            {[]corev1.PodCondition{probed}, true, true},
		"the first of two":  {[]corev1.PodCondition{is("False", "Unschedulable", "other"), is("False", "Unschedulable", message)}, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			runProfile(t, also(refusing("R", "no")), scheduler.Options{}, func(t *testing.T, s *server, _ *scheduler.Scheduler) {
				p := pod("web", "1", "1Gi")
				p.Status.Conditions = tt.has
				patched := 0
				s.failing(func(context.Context, string) error { patched++; return nil })
				s.pods.Put(p)
				synctest.Wait()
				same(t, tt.written, patched == 1)
				same(t, tt.written, len(s.said()) == 2)
				got, _ := s.pods.Get("default", "web")
				i := slices.IndexFunc(got.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.PodScheduled })
				same(t, tt.kept, got.Status.Conditions[i].LastTransitionTime.Equal(&since))
			}, node("n", "4", "8Gi"))
		})
	}
}

// Status is written again when a server is not well or somebody was faster, and what cannot be written is logged.
func TestStatusIsWrittenAgain(t *testing.T) {
	pods := corev1.Resource("pods")
	for name, tt := range map[string]struct {
		err   error
		times int
		tries int
		at    string
	}{
		"not well":      {apierrors.NewServiceUnavailable("starting"), 2, 3, "60ms"},
		"a conflict":    {apierrors.NewConflict(pods, "web", errors.New("changed")), 1, 2, "10ms"},
		"forbidden":     {apierrors.NewForbidden(pods, "web", errors.New("no")), 9, 1, ""},
		"long not well": {apierrors.NewServiceUnavailable("starting"), 9, 4, ""},
	} {
		t.Run(name, func(t *testing.T) {
			var log logged
			runProfile(t, also(refusing("R", "no")), scheduler.Options{Logger: log.logger()}, func(t *testing.T, s *server, _ *scheduler.Scheduler) {
				tries := 0
				s.failing(func(context.Context, string) error {
					if tries++; tries <= tt.times {
						return tt.err
					}
					return nil
				})
				s.pods.Put(pod("web", "1", "1Gi"))
				after(time.Second)
				same(t, tt.tries, tries)
				if said := s.said(); tt.at != "" {
					same(t, tt.at+" web: PodScheduled=False Unschedulable: 0/1 nodes are available: 1 no.", said[1])
				}
				same(t, tt.at == "", strings.Contains(log.String(), "updating a pod's status failed"))
			}, node("n", "4", "8Gi"))
		})
	}
	var log logged
	runProfile(t, also(refusing("R", "no")), scheduler.Options{Logger: log.logger()}, func(t *testing.T, s *server, _ *scheduler.Scheduler) {
		s.failing(func(ctx context.Context, _ string) error { <-ctx.Done(); return ctx.Err() })
		s.pods.Put(pod("web", "1", "1Gi"))
		synctest.Wait()
	}, node("n", "4", "8Gi"))
	same(t, "", log.String()) // that it ended while it wrote is no failure
}

// A refusal of a plugin behind the reservations reads as the pod's being unschedulable, unless it is that it failed.
func TestReasonsOfRefusals(t *testing.T) {
	for reason, r := range map[string]*scheduler.Refusal{"Unschedulable": scheduler.Refuse("no"), "SchedulerError": {Err: errors.New("no")}} {
		profile := also(scheduler.PreBinderFunc("P", func(context.Context, *corev1.Pod, string) error { return r }))
		runProfile(t, profile, scheduler.Options{}, func(t *testing.T, s *server, _ *scheduler.Scheduler) {
			s.pods.Put(pod("web", "1", "1Gi"))
			synctest.Wait()
			same(t, true, strings.HasPrefix(s.said()[1], "0s web: PodScheduled=False "+reason+": "))
		}, node("n", "4", "8Gi"))
	}
}

// slowly has the first so many writes about a pod take some time.
func (s *server) slowly(name string, times int, d time.Duration) {
	s.failing(func(_ context.Context, pod string) error {
		s.mu.Lock()
		times--
		slow := pod == name && times >= 0
		s.mu.Unlock()
		if slow {
			time.Sleep(d)
		}
		return nil
	})
}

// Writes of one pod are made in their order, however many they are, and give their places back.
func TestManyWritesOfOnePod(t *testing.T) {
	attempt := 0
	closed := scheduler.PredicateFunc("Closed", func(pod *corev1.Pod, _ *scheduler.NodeInfo) *scheduler.Refusal {
		if pod.Name != "web" {
			return nil
		}
		attempt++
		return scheduler.Refuse(fmt.Sprint("closed ", attempt))
	})
	runProfile(t, also(closed), scheduler.Options{Writes: 2}, func(t *testing.T, s *server, _ *scheduler.Scheduler) {
		s.slowly("web", 3, 10*time.Second)
		s.pods.Put(pod("web", "1", "1Gi"))
		for i := range 4 {
			after(5 * time.Second)
			s.nodes.Put(tainted(node(fmt.Sprint("m", i), "1", "1Gi"), corev1.TaintEffectNoSchedule))
		}
		after(4 * time.Minute)
		var written []string
		for _, said := range s.said() {
			if _, reason, ok := strings.Cut(said, "closed "); ok && strings.Contains(said, "PodScheduled=False") {
				written = append(written, reason[:1])
			}
		}
		same(t, []string{"1", "2", "3", "4", "5"}, written)
		s.failing(func(context.Context, string) error { time.Sleep(time.Second); return nil })
		for i := range 4 {
			s.pods.Put(pod(fmt.Sprint("other", i), "1", "1Mi"))
		}
		after(3 * time.Second) // two at once; beside them, web may be tried and reported again
		for i := range 4 {
			same(t, "n", s.where()[fmt.Sprint("other", i)])
		}
	}, node("n", "4", "8Gi"))
}

// What prepares a pod waits for the report of the attempt before.
func TestPreparedAfterTheReport(t *testing.T) {
	var prepared time.Duration
	var s *server
	runProfile(t, also(scheduler.PreBinderFunc("P", func(context.Context, *corev1.Pod, string) error {
		prepared = time.Since(s.start)
		return nil
	})), scheduler.Options{}, func(t *testing.T, is *server, _ *scheduler.Scheduler) {
		s = is
		s.slowly("web", 1, 5*time.Second)
		s.pods.Put(pod("web", "8", "1Gi"))
		after(time.Second)
		s.nodes.Put(node("big", "8", "8Gi"))
		after(time.Minute)
		same(t, 5*time.Second, prepared)
		same(t, "big", s.where()["web"])
	}, node("n", "4", "8Gi"))
}

// All that is to be tried is tried at the same moment, whatever comes of it.
func TestAttemptsFollowEachOther(t *testing.T) {
	profile := also(helpedReserver{Reserver: scheduler.ReserverFunc("R", func(_ context.Context, pod *corev1.Pod, _ string) (func(), error) {
		if pod.Name == "reserved" {
			return nil, scheduler.Refuse("no")
		}
		return nil, nil
	})})
	runProfile(t, profile, scheduler.Options{Settle: time.Millisecond}, func(t *testing.T, s *server, _ *scheduler.Scheduler) {
		s.pods.Put(ending(pod("ends", "1", "1Gi")))
		s.pods.Put(pod("big", "8", "1Gi"))
		s.pods.Put(pod("reserved", "1", "1Gi"))
		s.pods.Put(pod("good", "1", "1Gi"))
		s.pods.Put(pod("last", "1", "1Gi"))
		after(500 * time.Millisecond)
		said := s.said()
		same(t, 7, len(said))
		for _, one := range said {
			if !strings.HasPrefix(one, "1ms ") {
				t.Errorf("late: %s", one)
			}
		}
	}, node("n", "4", "8Gi"))
}

// A pod that fits nowhere, as far as is known, keeps nobody from the node that it was nominated for, before that is written.
func TestNominationIsTakenBackAtOnce(t *testing.T) {
	run(t, scheduler.Options{}, func(t *testing.T, s *server, _ *scheduler.Scheduler) {
		s.slowly("vip", 1, 10*time.Second)
		s.pods.Put(nominated(important(pod("vip", "8", "1Gi"), 10), "n"))
		synctest.Wait()
		s.pods.Put(pod("small", "1", "1Gi"))
		synctest.Wait()
		same(t, "n", s.where()["small"])
	}, node("n", "4", "8Gi"))
}

// A nomination counts before it is written, also when the pod changes meanwhile, and is that of the pod alone.
func TestNominationCountsAtOnce(t *testing.T) {
	for name, tt := range map[string]struct {
		meanwhile func(*server, *corev1.Pod)
		counts    bool
	}{
		"nothing": {func(*server, *corev1.Pod) {}, true},
		"labels":  {func(s *server, p *corev1.Pod) { p.Labels = map[string]string{"a": "b"}; s.pods.Put(p) }, true},
		"gone":    {func(s *server, p *corev1.Pod) { s.pods.Delete("default", p.Name) }, false},
		"replaced": {func(s *server, p *corev1.Pod) {
			p.UID, p.Spec.SchedulingGates = "another", []corev1.PodSchedulingGate{{Name: "g"}}
			s.pods.Put(p)
		}, false},
	} {
		for _, during := range []bool{false, true} {
			t.Run(fmt.Sprint(name, during), func(t *testing.T) {
				var s *server
				vip := important(pod("vip", "8", "1Gi"), 10)
				answer := func(d scheduler.Decision, _ *scheduler.Snapshot) (*scheduler.Nomination, error) {
					if d.Pod.UID != "vip-uid" {
						return nil, scheduler.Refuse("no")
					}
					if during {
						tt.meanwhile(s, vip.DeepCopy())
						time.Sleep(time.Second)
					}
					return &scheduler.Nomination{Node: "n"}, nil
				}
				runProfile(t, preempting(answer), scheduler.Options{}, func(t *testing.T, is *server, sched *scheduler.Scheduler) {
					s = is
					s.slowly("vip", 1, 10*time.Second)
					s.pods.Put(vip)
					after(2 * time.Second)
					if !during {
						tt.meanwhile(s, vip.DeepCopy())
						synctest.Wait()
					}
					same(t, tt.counts, len(sched.Snapshot().Nominated("n")) == 1)
					s.pods.Put(pod("small", "1", "1Gi"))
					synctest.Wait()
					same(t, tt.counts, s.where()["small"] == "-")
				}, node("n", "4", "8Gi"))
			})
		}
	}
}

// A nomination that comes from elsewhere counts, and only one that goes is a reason to try others.
func TestNominationFromElsewhere(t *testing.T) {
	keep := says(nil, scheduler.Refuse("no room"))
	profile := preempting(keep)
	runProfile(t, profile, scheduler.Options{}, func(t *testing.T, s *server, sched *scheduler.Scheduler) {
		p := important(pod("vip", "8", "1Gi"), 10)
		s.pods.Put(p)
		s.pods.Put(important(pod("other", "8", "1Gi"), 10))
		after(time.Minute)
		s.said()
		for _, step := range []struct {
			node, label string
			tried       bool
		}{{"n", "", false}, {"n", "a", false}, {"m", "a", true}, {"", "a", true}, {"", "b", false}} {
			p, _ = s.pods.Get("default", "vip")
			p = nominated(p.DeepCopy(), step.node)
			p.Labels = map[string]string{"l": step.label}
			s.pods.Put(p)
			after(20 * time.Second)
			same(t, step.node == "n", len(sched.Snapshot().Nominated("n")) == 1)
			tried := slices.ContainsFunc(s.said(), func(said string) bool { return strings.Contains(said, " other: Warning") })
			if tried != step.tried {
				t.Errorf("nominated for %q, label %q: the other one was tried again: %t", step.node, step.label, tried)
			}
		}
	}, node("n", "4", "8Gi"))
}
