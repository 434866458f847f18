package scheduler_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/events"
	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/informer/memory"
	"github.com/keelson-dev/keelson/scheduler"
	"github.com/keelson-dev/keelson/scheduler/plugins"
)

func TestBinds(t *testing.T) {
	run(t, scheduler.Options{}, func(t *testing.T, s *server, sched *scheduler.Scheduler) {
		s.pods.Put(pod("web", "1", "1Gi"))
		synctest.Wait()
		same(t, []string{"0s web: Normal Binding/Scheduled Successfully assigned default/web to a"}, s.said())
		same(t, map[string]string{"web": "a"}, s.where())
		if got := sched.Snapshot().Node("a").Requested.MilliCPU; got != 1000 {
			t.Errorf("%dm are requested on the node", got)
		}
		if c := sched.Counts(); c.Active+c.Backoff+c.Waiting+c.Gated != 0 {
			t.Errorf("counts %+v", c)
		}
	}, node("a", "4", "8Gi"))
}

func TestOrderOfAttempts(t *testing.T) {
	var order []string
	o := scheduler.Options{
		Settle:     time.Millisecond,
		OnDecision: func(d scheduler.Decision) { order = append(order, d.Pod.Name+":"+d.Node) },
	}
	run(t, o, func(t *testing.T, s *server, _ *scheduler.Scheduler) {
		for _, name := range []string{"c", "a", "b", "d"} {
			s.pods.Put(pod(name, "1", ""))
		}
		s.pods.Put(important(pod("vip", "1", ""), 10))
		after(time.Second)
		same(t, []string{"vip:n", "c:n", "a:n", "b:n", "d:"}, order)
	}, node("n", "4", "8Gi"))
}

func TestUnschedulableUntilNodeAdded(t *testing.T) {
	const refused = "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) had untolerated taint(s)."
	const message = refused + " preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling."
	run(t, scheduler.Options{}, func(t *testing.T, s *server, sched *scheduler.Scheduler) {
		p := pod("big", "4", "1Gi")
		p.Generation = 3
		p.Status.NominatedNodeName = "gone"
		s.pods.Put(p)
		synctest.Wait()
		same(t, []string{
			"0s big: Warning Scheduling/FailedScheduling " + message,
			"0s big: PodScheduled=False Unschedulable: " + message,
		}, s.said())
		got, _ := s.pods.Get("default", "big")
		if c := got.Status.Conditions[0]; c.ObservedGeneration != 3 || !c.LastTransitionTime.Time.Equal(s.start) || got.Status.NominatedNodeName != "" {
			t.Errorf("status %+v", got.Status)
		}
		same(t, 1, sched.Counts().Waiting)
		same(t, refused, sched.Explain(p).Err.Error())
		same(t, "a", sched.Explain(pod("small", "1", "1Gi")).Node)

		after(10 * time.Second) // these do not help: a small tainted node, and an update of an old one
		s.nodes.Put(tainted(node("c", "1", "8Gi"), corev1.TaintEffectNoExecute))
		changed := node("a", "2", "8Gi")
		changed.Labels["new"] = "label"
		s.nodes.Put(changed)
		synctest.Wait()
		same(t, nil, s.said())
		s.nodes.Put(node("d", "4", "8Gi"))
		synctest.Wait()
		same(t, []string{"10s big: Normal Binding/Scheduled Successfully assigned default/big to d"}, s.said())
	}, node("a", "2", "8Gi"), tainted(node("b", "8", "8Gi"), corev1.TaintEffectNoSchedule))
}

func TestConditionIsNotRepeated(t *testing.T) {
	run(t, scheduler.Options{}, func(t *testing.T, s *server, _ *scheduler.Scheduler) {
		s.pods.Put(pod("big", "4", "1Gi"))
		synctest.Wait()
		s.said()
		s.nodes.Put(node("b", "4", "1Mi")) // too small
		s.pods.Put(on(pod("in-the-way", "1", "1Gi"), "a"))
		after(time.Minute)
		same(t, nil, s.said())
		s.nodes.Put(node("a", "4", "8Gi"))
		after(time.Second)
		const message = "0/2 nodes are available: 1 Insufficient cpu, 1 Insufficient memory. " +
			"preemption: 0/2 nodes are available: 1 No preemption victims found for incoming pod, 1 Preemption is not helpful for scheduling."
		got := s.said()
		same(t, "1m0s big: PodScheduled=False Unschedulable: "+message, got[len(got)-1])

		// Five minutes later it is retried; as upstream, an event repeats the message, but the unchanged status
		// is not written again.
		after(6 * time.Minute)
		same(t, []string{"6m30s big: Warning Scheduling/FailedScheduling " + message}, s.said())
	}, node("a", "2", "8Gi"))
}

// A pod refused by a predicate without hints is retried after every event, except for the scheduler's own
// writes.
func TestPredicateWithoutHints(t *testing.T) {
	profile := defaults()
	profile.Plugins = append(profile.Plugins, scheduler.Enabled{Plugin: scheduler.PredicateFunc("Team", func(pod *corev1.Pod, _ *scheduler.NodeInfo) *scheduler.Refusal {
		if pod.Annotations["team"] == "" {
			return scheduler.Refuse("node(s) were of a team")
		}
		return nil
	})})
	const message = "0/1 nodes are available: 1 node(s) were of a team. " +
		"preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod."
	const failed = "web: Warning Scheduling/FailedScheduling " + message
	runProfile(t, profile, scheduler.Options{}, func(t *testing.T, s *server, _ *scheduler.Scheduler) {
		s.pods.Put(pod("web", "1", "1Gi"))
		after(time.Minute)
		same(t, []string{"0s " + failed, "0s web: PodScheduled=False Unschedulable: " + message}, s.said())
		s.pods.Put(on(pod("other", "1", "1Gi"), "a"))
		synctest.Wait()
		same(t, []string{"1m0s " + failed}, s.said())
		annotated, _ := s.pods.Get("default", "web")
		annotated = annotated.DeepCopy()
		annotated.Annotations = map[string]string{"team": "blue"}
		s.pods.Put(annotated)
		synctest.Wait()
		same(t, "a", s.where()["web"])
	}, node("a", "4", "8Gi"))
}

func TestNoNodes(t *testing.T) {
	run(t, scheduler.Options{}, func(t *testing.T, s *server, _ *scheduler.Scheduler) {
		s.pods.Put(pod("web", "1", "1Gi"))
		synctest.Wait()
		s.nodes.Put(node("a", "4", "8Gi"))
		after(10 * time.Second)
		same(t, []string{
			"0s web: Warning Scheduling/FailedScheduling no nodes available to schedule pods",
			"0s web: PodScheduled=False Unschedulable: no nodes available to schedule pods",
			"2s web: Normal Binding/Scheduled Successfully assigned default/web to a",
		}, s.said())
	})
}

func TestBindingFails(t *testing.T) {
	run(t, scheduler.Options{}, func(t *testing.T, s *server, sched *scheduler.Scheduler) {
		s.failing(func(_ context.Context, name string) error {
			if name == "first" {
				s.failing(nil)
				return apierrors.NewForbidden(corev1.Resource("pods/binding"), name, errors.New("no"))
			}
			return nil
		})
		s.pods.Put(pod("first", "3", "1Gi"))
		synctest.Wait()
		const message = `running Bind plugin "DefaultBinder": pods/binding "first" is forbidden: no`
		same(t, []string{
			"0s first: Warning Scheduling/FailedScheduling " + message,
			"0s first: PodScheduled=False SchedulerError: " + message,
		}, s.said())
		if got := sched.Snapshot().Node("a").Requested.MilliCPU; got != 0 {
			t.Errorf("%dm are requested by a pod that was not bound", got)
		}
		after(time.Minute)
		same(t, []string{"2s first: Normal Binding/Scheduled Successfully assigned default/first to a"}, s.said())
	}, node("a", "4", "8Gi"))
}

func TestBindingThatFailsMakesRoom(t *testing.T) {
	run(t, scheduler.Options{}, func(t *testing.T, s *server, _ *scheduler.Scheduler) {
		s.failing(func(_ context.Context, name string) error {
			if name == "first" {
				time.Sleep(time.Second)
				s.failing(nil)
				return errors.New("lost")
			}
			return nil
		})
		s.pods.Put(pod("first", "3", "1Gi"))
		s.pods.Put(pod("second", "3", "1Gi"))
		after(5 * time.Second)
		same(t, map[string]string{"first": "-", "second": "a"}, s.where())
	}, node("a", "4", "8Gi"))
}

// A slow report of a failure must not overtake the later binding.
func TestWritesOfOnePodKeepTheirOrder(t *testing.T) {
	run(t, scheduler.Options{}, func(t *testing.T, s *server, _ *scheduler.Scheduler) {
		slow := true
		s.failing(func(context.Context, string) error {
			if slow {
				slow = false
				time.Sleep(time.Second)
			}
			return nil
		})
		s.pods.Put(pod("web", "8", "1Gi"))
		synctest.Wait()
		s.nodes.Put(node("b", "8", "8Gi"))
		after(time.Minute)
		const message = "0/1 nodes are available: 1 Insufficient cpu. " +
			"preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling."
		same(t, []string{
			"0s web: Warning Scheduling/FailedScheduling " + message,
			"1s web: PodScheduled=False Unschedulable: " + message,
			"1s web: Normal Binding/Scheduled Successfully assigned default/web to b",
		}, s.said())
		got, _ := s.pods.Get("default", "web")
		if c := got.Status.Conditions; len(c) != 1 || c[0].Status != corev1.ConditionTrue {
			t.Errorf("conditions %+v", c)
		}
	}, node("a", "4", "8Gi"))
}

func TestUnwellServer(t *testing.T) {
	run(t, scheduler.Options{}, func(t *testing.T, s *server, _ *scheduler.Scheduler) {
		tries := 0
		s.failing(func(context.Context, string) error {
			if tries++; tries < 4 {
				return apierrors.NewServiceUnavailable("starting")
			}
			return nil
		})
		s.pods.Put(pod("web", "3", "1Gi"))
		after(time.Second)
		same(t, []string{"310ms web: Normal Binding/Scheduled Successfully assigned default/web to a"}, s.said())
	}, node("a", "4", "8Gi"))
}

func TestPodDeletedDuringBind(t *testing.T) {
	for name, gone := range map[string]func(*server, *corev1.Pod){
		"deleted":     func(s *server, p *corev1.Pod) { s.pods.Delete(p.Namespace, p.Name) },
		"terminating": func(s *server, p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: time.Now()}; s.pods.Put(p) },
		"finished":    func(s *server, p *corev1.Pod) { p.Status.Phase = corev1.PodFailed; s.pods.Put(p) },
	} {
		t.Run(name, func(t *testing.T) {
			run(t, scheduler.Options{}, func(t *testing.T, s *server, sched *scheduler.Scheduler) {
				s.failing(func(_ context.Context, name string) error {
					if name == "first" {
						time.Sleep(10 * time.Second)
						return apierrors.NewNotFound(corev1.Resource("pods"), name)
					}
					return nil
				})
				p := pod("first", "3", "1Gi")
				s.pods.Put(p)
				s.pods.Put(pod("second", "3", "1Gi"))
				after(time.Second)
				same(t, "-", s.where()["second"])
				gone(s, p.DeepCopy())
				synctest.Wait()
				same(t, "a", s.where()["second"])
				after(time.Minute)
				if got := sched.Snapshot().Node("a").Requested.MilliCPU; got != 3000 {
					t.Errorf("%dm are requested", got)
				}
			}, node("a", "4", "8Gi"))
		})
	}
}

func TestDeletingPodsAreSkipped(t *testing.T) {
	run(t, scheduler.Options{}, func(t *testing.T, s *server, _ *scheduler.Scheduler) {
		p := pod("web", "1", "1Gi")
		p.DeletionTimestamp = &metav1.Time{Time: time.Now()}
		p.Finalizers = []string{"example.com/keep"}
		s.pods.Put(p)
		after(time.Hour)
		same(t, []string{"0s web: Warning Scheduling/FailedScheduling skip schedule deleting pod: default/web"}, s.said())
	}, node("a", "4", "8Gi"))
}

func TestGatedPods(t *testing.T) {
	run(t, scheduler.Options{}, func(t *testing.T, s *server, sched *scheduler.Scheduler) {
		p := pod("web", "1", "1Gi")
		p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "g"}}
		s.pods.Put(p)
		after(time.Hour)
		same(t, nil, s.said())
		same(t, 1, sched.Counts().Gated)
		s.pods.Put(pod("web", "1", "1Gi"))
		synctest.Wait()
		same(t, []string{"1h0m0s web: Normal Binding/Scheduled Successfully assigned default/web to a"}, s.said())
	}, node("a", "4", "8Gi"))
}

func TestForeignPods(t *testing.T) {
	run(t, scheduler.Options{}, func(t *testing.T, s *server, _ *scheduler.Scheduler) {
		other := pod("other", "3", "1Gi")
		other.Spec.SchedulerName = "somebody"
		s.pods.Put(other)
		after(time.Minute)
		same(t, nil, s.said())
		bound := on(other, "a") // by another client
		s.pods.Put(bound)
		synctest.Wait()
		s.pods.Put(pod("mine", "2", "1Gi"))
		synctest.Wait()
		same(t, "-", s.where()["mine"])
		finished := bound.DeepCopy()
		finished.Status.Phase = corev1.PodSucceeded
		s.pods.Put(finished)
		synctest.Wait()
		same(t, "a", s.where()["mine"])
		s.pods.Delete("default", "other")
		synctest.Wait()
	}, node("a", "4", "8Gi"))
}

func TestRoomComesBack(t *testing.T) {
	shrunk := on(pod("old", "3", "1Gi"), "a")
	shrunk.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = node("", "1", "0").Status.Allocatable[corev1.ResourceCPU]
	cordoned := node("b", "8", "8Gi")
	cordoned.Spec.Unschedulable = true
	for name, event := range map[string]func(*server){
		"pod deleted":       func(s *server) { s.pods.Delete("default", "old") },
		"pod recreated":     func(s *server) { p := on(pod("old", "", ""), "a"); p.UID = "new"; s.pods.Put(p) },
		"pod resized":       func(s *server) { s.pods.Put(shrunk.DeepCopy()) },
		"node grew":         func(s *server) { s.nodes.Put(node("a", "8", "8Gi")) },
		"node uncordoned":   func(s *server) { s.nodes.Put(node("b", "8", "8Gi")) },
		"pod asks for less": func(s *server) { s.pods.Put(pod("new", "1", "1Gi")) },
	} {
		t.Run(name, func(t *testing.T) {
			run(t, scheduler.Options{}, func(t *testing.T, s *server, _ *scheduler.Scheduler) {
				s.pods.Put(on(pod("old", "3", "1Gi"), "a"))
				synctest.Wait()
				s.pods.Put(pod("new", "2", "1Gi"))
				after(time.Minute)
				same(t, "-", s.where()["new"])
				event(s)
				synctest.Wait()
				if at := s.where()["new"]; at == "-" {
					t.Error("the pod was not tried again")
				}
			}, node("a", "4", "8Gi"), cordoned.DeepCopy())
		})
	}
}

func TestNodeDeleted(t *testing.T) {
	run(t, scheduler.Options{}, func(t *testing.T, s *server, _ *scheduler.Scheduler) {
		s.nodes.Delete("", "a")
		synctest.Wait()
		s.pods.Put(pod("web", "1", "1Gi"))
		synctest.Wait()
		same(t, "b", s.where()["web"])
	}, node("a", "64", "64Gi"), node("b", "4", "8Gi"))
}

func TestShutdownDuringABinding(t *testing.T) {
	run(t, scheduler.Options{Writes: 1}, func(t *testing.T, s *server, _ *scheduler.Scheduler) {
		s.failing(func(ctx context.Context, _ string) error { <-ctx.Done(); return ctx.Err() })
		for i := range 3 {
			s.pods.Put(pod(fmt.Sprint(i), "1", "1Gi"))
		}
		synctest.Wait()
		same(t, nil, s.said())
	}, node("a", "4", "8Gi"))
}

func TestRunWithoutSources(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in := scheduler.Sources{Pods: informer.New[*corev1.Pod](memory.New[*corev1.Pod](), informer.Options{}),
			Nodes: informer.New[*corev1.Node](memory.New[*corev1.Node](), informer.Options{})}
		s, err := scheduler.New(in, binding(nil), nil, events.Func(func(events.Event) {}), scheduler.Options{})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := s.Run(ctx); err != nil {
			t.Errorf("a context that ends first is no error: %v", err)
		}
		if err := in.Nodes.Run(ctx); err != nil {
			t.Error(err)
		}
		if err := s.Run(t.Context()); !errors.Is(err, informer.ErrStopped) {
			t.Errorf("error %v", err)
		}
		soon, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if err := s.Run(soon); err != nil {
			t.Errorf("a context that ends with the sources is no error: %v", err)
		}
	})
}

func TestNewRefusesProfiles(t *testing.T) {
	_, err := scheduler.New(scheduler.Sources{}, scheduler.Profile{Plugins: []scheduler.Enabled{{}}}, nil, nil, scheduler.Options{})
	if !errors.Is(err, scheduler.ErrProfile) {
		t.Errorf("error %v", err)
	}
}

// Runs of the same scenario in a bubble give the same log, in whatever order goroutines run.
func TestRunsRepeat(t *testing.T) {
	story := func() (log []string) {
		run(t, scheduler.Options{Settle: time.Millisecond}, func(t *testing.T, s *server, _ *scheduler.Scheduler) {
			for i := range 30 {
				s.pods.Put(important(pod(fmt.Sprintf("p%d", i), "900m", "512Mi"), int32(i%3)))
				if i%10 == 9 {
					after(700 * time.Millisecond)
				}
			}
			s.nodes.Put(node("late", "16", "16Gi"))
			after(time.Minute)
			log = s.said()
			for p, n := range s.where() {
				log = append(log, p+" is on "+n)
			}
			slices.Sort(log) // writes are concurrent
		}, node("a", "4", "8Gi"), node("b", "4", "8Gi"), node("c", "8", "8Gi"))
		return log
	}
	first := story()
	if len(first) < 60 {
		t.Errorf("not much happened: %q", first)
	}
	for range 20 {
		same(t, first, story())
	}
}

// binding returns a profile that only binds.
func binding(s *server) scheduler.Profile {
	return scheduler.Profile{Plugins: []scheduler.Enabled{{Plugin: plugins.DefaultBinder{Client: s}}}}
}
