package scheduler_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/scheduler"
)

// also is the default profile with more plugins.
func also(plugins ...scheduler.Plugin) scheduler.Profile {
	p := defaults()
	p.Plugins = append(scheduler.Without(p.Plugins, "DynamicResources", "DefaultPreemption"), profileOf(plugins...).Plugins...)
	return p
}

// logged collects what a scheduler logs.
type logged struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logged) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func (l *logged) logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

func ending(p *corev1.Pod) *corev1.Pod {
	p = p.DeepCopy()
	p.DeletionTimestamp = &metav1.Time{Time: time.Now()}
	return p
}

// idles is a PreBinder that takes its time.
func idles(d time.Duration) scheduler.PreBinder {
	return scheduler.PreBinderFunc("Idles", func(ctx context.Context, _ *corev1.Pod, _ string) error {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(d):
			return nil
		}
	})
}

func permits(w *scheduler.Wait) scheduler.Permitter {
	return scheduler.PermitterFunc("Permits", func(_ context.Context, pod *corev1.Pod, _ string) (*scheduler.Wait, error) {
		if pod.Name == "web" {
			return w, nil
		}
		return nil, nil
	})
}

// Plugins made of functions say what the functions do.
func TestPluginsOfFunctions(t *testing.T) {
	boom := errors.New("boom")
	var bound []string
	once := func(name string) func(context.Context, *corev1.Pod, string) error {
		failed := false
		return func(context.Context, *corev1.Pod, string) error {
			if !failed {
				failed = true
				return boom
			}
			if name == "Binds" {
				return scheduler.ErrDeclined
			}
			return nil
		}
	}
	profile := also(scheduler.PreBinderFunc("Prepares", once("Prepares")), scheduler.BinderFunc("Binds", once("Binds")),
		scheduler.PostBinderFunc("Hears", func(_ context.Context, pod *corev1.Pod, node string) { bound = append(bound, pod.Name+":"+node) }))
	var log logged
	runProfile(t, profile, scheduler.Options{Logger: log.logger()}, func(t *testing.T, s *server, _ *scheduler.Scheduler) {
		s.pods.Put(pod("web", "1", "1Gi"))
		after(time.Minute)
		said := slices.DeleteFunc(s.said(), func(said string) bool { return strings.Contains(said, "PodScheduled") })
		same(t, []string{
			`0s web: Warning Scheduling/FailedScheduling running PreBind plugin "Prepares": boom`,
			`2s web: Warning Scheduling/FailedScheduling running Bind plugin "Binds": boom`,
			"5s web: Normal Binding/Scheduled Successfully assigned default/web to n",
		}, said)
		same(t, []string{"web:n"}, bound)
		same(t, 2, strings.Count(log.String(), "binding a pod failed"))
	}, node("n", "4", "8Gi"))
}

// A plugin whose refusal is that it failed, failed.
func TestRefusalThatIsAFailure(t *testing.T) {
	failed := &scheduler.Refusal{Err: errors.New("boom")}
	profile := also(scheduler.ReserverFunc("Fails", func(context.Context, *corev1.Pod, string) (func(), error) { return nil, failed }))
	runProfile(t, profile, scheduler.Options{}, func(t *testing.T, s *server, _ *scheduler.Scheduler) {
		s.pods.Put(pod("web", "1", "1Gi"))
		synctest.Wait()
		same(t, `0s web: PodScheduled=False SchedulerError: running Reserve plugin "Fails": boom`, s.said()[1])
	}, node("n", "4", "8Gi"))
}

// A permit is waited for where nothing else comes before the binding.
func TestPermitAlone(t *testing.T) {
	w := scheduler.NewWait(time.Minute)
	runProfile(t, also(permits(w)), scheduler.Options{}, func(t *testing.T, s *server, _ *scheduler.Scheduler) {
		s.pods.Put(pod("web", "1", "1Gi"))
		after(time.Second)
		same(t, "-", s.where()["web"])
		same(t, []string{"web:n"}, s.nominated())
		w.Allow()
		synctest.Wait()
		same(t, "n", s.where()["web"])
	}, node("n", "4", "8Gi"))
}

// A pod whose permit did not come before the end of Run is not bound.
func TestRunEndsBeforeThePermit(t *testing.T) {
	bound := 0
	binds := scheduler.BinderFunc("Binds", func(context.Context, *corev1.Pod, string) error { bound++; return nil })
	runProfile(t, also(permits(scheduler.NewWait(time.Minute)), binds), scheduler.Options{}, func(t *testing.T, s *server, _ *scheduler.Scheduler) {
		s.pods.Put(pod("web", "1", "1Gi"))
		synctest.Wait()
	}, node("n", "4", "8Gi"))
	same(t, 0, bound)
}

// A pod that goes while a PreBinder runs frees its node at once, whether it waited for a permit before or not.
func TestPodGoesWhileItIsPrepared(t *testing.T) {
	for _, early := range []bool{false, true} {
		for name, goes := range map[string]func(*server, *corev1.Pod){
			"deleted":          func(s *server, p *corev1.Pod) { s.pods.Delete("default", p.Name) },
			"ends":             func(s *server, p *corev1.Pod) { s.pods.Put(ending(p)) },
			"ends, is deleted": func(s *server, p *corev1.Pod) { s.pods.Put(ending(p)); s.pods.Delete("default", p.Name) },
		} {
			t.Run(fmt.Sprint(name, early), func(t *testing.T) {
				plugins := []scheduler.Plugin{idles(10 * time.Second)}
				if !early {
					plugins = append(plugins, scheduler.ReserverFunc("R", func(context.Context, *corev1.Pod, string) (func(), error) { return nil, nil }))
				} else {
					w := scheduler.NewWait(time.Minute)
					w.Allow()
					plugins = append(plugins, permits(w))
				}
				runProfile(t, also(plugins...), scheduler.Options{}, func(t *testing.T, s *server, _ *scheduler.Scheduler) {
					p := pod("web", "3", "1Gi")
					s.pods.Put(p)
					s.pods.Put(pod("next", "3", "1Gi"))
					after(time.Second)
					same(t, []string{"web:n"}, s.nominated())
					goes(s, p)
					after(3 * time.Second)
					same(t, true, slices.Contains(s.nominated(), "next:n"))
				}, node("n", "4", "8Gi"))
			})
		}
	}
}

// undoingSlowly runs with a pod that waits for a permit and takes a second to give back what it holds, which has to happen
// once.
func undoingSlowly(t *testing.T, goes func(s *server, p *corev1.Pod, requested func() int64)) {
	t.Helper()
	undone := 0
	profile := also(permits(scheduler.NewWait(time.Minute)), scheduler.ReserverFunc("Slow", func(context.Context, *corev1.Pod, string) (func(), error) {
		return func() { time.Sleep(time.Second); undone++ }, nil
	}))
	runProfile(t, profile, scheduler.Options{}, func(t *testing.T, s *server, sched *scheduler.Scheduler) {
		requested := func() int64 {
			synctest.Wait()
			return sched.Snapshot().Node("n").Requested.MilliCPU
		}
		p := pod("web", "3", "1Gi")
		s.pods.Put(p)
		after(time.Second)
		goes(s, p.DeepCopy(), requested)
		after(5 * time.Second)
		same(t, 1, undone)
		same(t, 0, requested())
	}, node("n", "4", "8Gi"))
}

// A pod's node is free when what it holds is given back, and that is once, however often the pod goes.
func TestPodGoesTwice(t *testing.T) {
	undoingSlowly(t, func(s *server, p *corev1.Pod, requested func() int64) {
		p = ending(p)
		s.pods.Put(p)
		same(t, 3000, requested())
		p = p.DeepCopy()
		p.Labels = map[string]string{"a": "b"}
		s.pods.Put(p)
		same(t, 3000, requested())
		s.pods.Delete("default", "web")
	})
	undoingSlowly(t, func(s *server, p *corev1.Pod, requested func() int64) {
		p = on(p, "n") // by others, and over at once
		p.Status.Phase = corev1.PodFailed
		s.pods.Put(p)
		same(t, 3000, requested())
	})
}

// What becomes of a pod is not told to another of its name.
func TestPodIsReplacedWhileItIsPrepared(t *testing.T) {
	profile := also(scheduler.PreBinderFunc("Fails", func(_ context.Context, pod *corev1.Pod, _ string) error {
		if pod.UID == "web-uid" {
			time.Sleep(time.Second)
			return errors.New("boom")
		}
		return nil
	}))
	runProfile(t, profile, scheduler.Options{}, func(t *testing.T, s *server, sched *scheduler.Scheduler) {
		s.pods.Put(pod("web", "1", "1Gi"))
		synctest.Wait()
		s.pods.Delete("default", "web")
		another := pod("web", "", "")
		another.UID = "another"
		another.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "g"}}
		s.pods.Put(another)
		after(time.Minute)
		same(t, nil, s.said())
		same(t, 1, sched.Counts().Gated)
		same(t, 0, len(sched.Snapshot().Node("n").Pods))
	}, node("n", "4", "8Gi"))
}

// The end of Run undoes what is reserved for pods whose binding is under way, or has to wait for a place, and that is no error.
func TestRunEndsWhilePodsAreBound(t *testing.T) {
	for name, more := range map[string][]scheduler.Plugin{
		"bound":    nil,
		"prepared": {idles(time.Hour)},
	} {
		t.Run(name, func(t *testing.T) {
			var log logged
			var undone []string
			var mu sync.Mutex
			reserves := scheduler.ReserverFunc("Reserves", func(_ context.Context, pod *corev1.Pod, _ string) (func(), error) {
				return func() {
					mu.Lock()
					defer mu.Unlock()
					undone = append(undone, pod.Name)
				}, nil
			})
			runProfile(t, also(append(more, reserves)...), scheduler.Options{Writes: 1, PreBinds: 1, Logger: log.logger()}, func(t *testing.T, s *server, _ *scheduler.Scheduler) {
				s.failing(func(ctx context.Context, _ string) error {
					if name == "prepared" {
						return nil
					}
					<-ctx.Done()
					return ctx.Err()
				})
				for i := range 3 {
					s.pods.Put(pod(fmt.Sprint(i), "1", "1Gi"))
				}
				after(time.Minute)
				same(t, nil, s.said())
			}, node("n", "4", "8Gi"))
			want := []string{"0", "1"} // under way, and waiting for a place; the third was not looked at
			if name == "prepared" {
				want = append(want, "2")
			}
			slices.Sort(undone)
			same(t, want, undone)
			same(t, "", log.String())
		})
	}
}

// No pod is looked at after the end of Run.
func TestRunEndsDuringAnAttempt(t *testing.T) {
	reserved := 0
	slow := scheduler.ReserverFunc("Slow", func(context.Context, *corev1.Pod, string) (func(), error) {
		reserved++
		time.Sleep(time.Second)
		return nil, nil
	})
	runProfile(t, also(slow), scheduler.Options{}, func(t *testing.T, s *server, _ *scheduler.Scheduler) {
		for i := range 3 {
			s.pods.Put(pod(fmt.Sprint(i), "1", "1Gi"))
		}
		synctest.Wait()
	}, node("n", "4", "8Gi"))
	same(t, 1, reserved)
}

// helpedBy hears of new nodes for the pods that it refused.
type helpedBy struct{ scheduler.Plugin }

func (helpedBy) Events() scheduler.EventKind { return scheduler.NodeAdded | scheduler.PodUpdated }
func (helpedBy) MayHelp(_ *corev1.Pod, e scheduler.Event) bool {
	return e.Kind == scheduler.PodUpdated || e.Node.Name == "helpful"
}
func (h helpedReserver) Name() string  { return h.Reserver.Name() }
func (h helpedPermitter) Name() string { return h.Permitter.Name() }

type helpedReserver struct {
	helpedBy
	scheduler.Reserver
}

type helpedPermitter struct {
	helpedBy
	scheduler.Permitter
}

// What happens while a pod is reserved for, or waits, counts when it is refused, for each of the roles alone; what a scheduler
// itself writes does not.
func TestEventsBetween(t *testing.T) {
	for what, happens := range map[string]func(*server){
		"a node":       func(s *server) { s.nodes.Put(node("helpful", "1", "1Gi")) },
		"another node": func(s *server) { s.nodes.Put(node("useless", "1", "1Gi")) },
		"the pod's own": func(s *server) {
			p, _ := s.pods.Get("default", "web")
			p = p.DeepCopy()
			p.Labels = map[string]string{"a": "b"}
			s.pods.Put(p)
		},
		"its nomination": func(s *server) { p, _ := s.pods.Get("default", "web"); s.pods.Put(nominated(p.DeepCopy(), "m")) },
	} {
		for _, role := range []string{"Reserver", "Permitter"} {
			t.Run(what+" "+role, func(t *testing.T) {
				asked := 0
				var plugin scheduler.Plugin = helpedReserver{Reserver: scheduler.ReserverFunc("R", func(context.Context, *corev1.Pod, string) (func(), error) {
					if asked++; asked == 1 {
						time.Sleep(2 * time.Second)
						return nil, scheduler.Refuse("not yet")
					}
					return nil, nil
				})}
				if w := scheduler.NewWait(2 * time.Second); role == "Permitter" {
					plugin = helpedPermitter{Permitter: scheduler.PermitterFunc("P", func(context.Context, *corev1.Pod, string) (*scheduler.Wait, error) {
						if asked++; asked == 1 {
							return w, nil
						}
						return nil, nil
					})}
				}
				runProfile(t, also(plugin), scheduler.Options{}, func(t *testing.T, s *server, _ *scheduler.Scheduler) {
					s.pods.Put(pod("web", "3", "1Gi"))
					after(time.Second)
					happens(s)
					after(time.Minute)
					same(t, what == "a node" || what == "the pod's own", s.where()["web"] == "n")
				}, node("n", "4", "8Gi"))
			})
		}
	}
}

// A node that a Reserver refuses was never free for others meanwhile, who are not tried for it.
func TestRefusedReservationHelpsNobody(t *testing.T) {
	profile := also(scheduler.ReserverFunc("R", func(context.Context, *corev1.Pod, string) (func(), error) { return nil, scheduler.Refuse("never") }))
	runProfile(t, profile, scheduler.Options{}, func(t *testing.T, s *server, _ *scheduler.Scheduler) {
		s.pods.Put(pod("big", "8", "1Gi"))
		after(time.Minute)
		s.said()
		s.pods.Put(pod("web", "1", "1Gi"))
		after(20 * time.Second)
		for _, said := range s.said() {
			if !strings.HasPrefix(said, "1m0s web: ") {
				t.Errorf("tried again: %s", said)
			}
		}
	}, node("n", "4", "8Gi"))
}

// Sixteen pods are bound at once, and sixty-four prepared, unless the options say otherwise.
func TestWritesAtOnce(t *testing.T) {
	var mu sync.Mutex
	running, most := 0, 0
	slow := func(context.Context, *corev1.Pod, string) error {
		mu.Lock()
		running++
		most = max(most, running)
		mu.Unlock()
		time.Sleep(time.Second)
		mu.Lock()
		defer mu.Unlock()
		running--
		return scheduler.ErrDeclined
	}
	prepare := func(ctx context.Context, pod *corev1.Pod, node string) error {
		_ = slow(ctx, pod, node)
		return nil
	}
	for want, plugin := range map[int]scheduler.Plugin{16: scheduler.BinderFunc("Slow", slow), 64: scheduler.PreBinderFunc("Slow", prepare)} {
		most = 0
		runProfile(t, also(plugin), scheduler.Options{}, func(t *testing.T, s *server, _ *scheduler.Scheduler) {
			for i := range 100 {
				s.pods.Put(pod(fmt.Sprint(i), "1m", ""))
			}
			after(time.Minute)
			same(t, want, most)
		}, node("n", "4", "64Gi"))
	}
}
