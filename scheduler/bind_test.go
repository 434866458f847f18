package scheduler_test

import (
	"context"
	"errors"
	"fmt"
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

// trace is shared by plugins that record their calls and return preset results.
type trace struct {
	mu    sync.Mutex
	calls []string
	// says is the error of a call, by plugin and point such as "b.Reserve"; once, unless keep is set.
	says map[string]error
	keep bool
	// waits is what a plugin's Permit returns.
	waits map[string]*scheduler.Wait
}

func (tr *trace) call(at string) error {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	tr.calls = append(tr.calls, at)
	err := tr.says[at]
	if !tr.keep {
		delete(tr.says, at)
	}
	return err
}

// called returns the calls since it was last called.
func (tr *trace) called() []string {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	calls := tr.calls
	tr.calls = nil
	return calls
}

// step is a plugin for all extension points after a decision.
type step struct {
	name string
	*trace
}

func (s step) Name() string { return s.name }

func (s step) Reserve(_ context.Context, pod *corev1.Pod, node string) (func(), error) {
	if err := s.call(s.name + ".Reserve"); err != nil {
		return nil, err
	}
	return func() { _ = s.call(s.name + ".undo") }, nil
}

func (s step) Permit(context.Context, *corev1.Pod, string) (*scheduler.Wait, error) {
	err := s.call(s.name + ".Permit")
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.waits[s.name], err
}

func (s step) PreBind(context.Context, *corev1.Pod, string) error { return s.call(s.name + ".PreBind") }

func (s step) Bind(context.Context, *corev1.Pod, string) error {
	if err := s.call(s.name + ".Bind"); err != nil {
		return err
	}
	return scheduler.ErrDeclined
}

func (s step) PostBind(context.Context, *corev1.Pod, string) { _ = s.call(s.name + ".PostBind") }

// stepwise returns the default profile with two such plugins.
func stepwise(tr *trace) scheduler.Profile {
	p := defaults()
	p.Plugins = append(p.Plugins, scheduler.Enabled{Plugin: step{"a", tr}}, scheduler.Enabled{Plugin: step{"b", tr}})
	return p
}

func bound() []string {
	return []string{"a.Reserve", "b.Reserve", "a.Permit", "b.Permit", "a.PreBind", "b.PreBind", "a.Bind", "b.Bind", "a.PostBind", "b.PostBind"}
}

func TestOrderOfExtensionPoints(t *testing.T) {
	var tr trace
	runProfile(t, stepwise(&tr), scheduler.Options{}, func(t *testing.T, s *server, sched *scheduler.Scheduler) {
		s.pods.Put(pod("web", "1", "1Gi"))
		synctest.Wait()
		same(t, bound(), tr.called())
		same(t, []string{"0s web: Normal Binding/Scheduled Successfully assigned default/web to n"}, s.said())
		same(t, []string{"web:n"}, s.nominated()) // while it waits to be bound
		same(t, "n", s.where()["web"])
	}, node("n", "4", "8Gi"))
}

// Whatever fails after the decision is undone in reverse order, reported as upstream does, and retried.
func TestFailuresAreUndone(t *testing.T) {
	boom, no := errors.New("boom"), scheduler.Refuse("no license")
	const unschedulable = "0/1 nodes are available: 1 no license."
	for _, tt := range []struct {
		at      string
		err     error
		message string
		reason  string
		before  int // index of the failing call in bound
		undone  []string
	}{
		{"a.Reserve", no, unschedulable, "Unschedulable", 0, nil},
		{"b.Reserve", no, unschedulable, "Unschedulable", 1, []string{"a.undo"}},
		{"b.Reserve", boom, `running Reserve plugin "b": boom`, "SchedulerError", 1, []string{"a.undo"}},
		{"a.Permit", no, unschedulable, "Unschedulable", 2, []string{"b.undo", "a.undo"}},
		{"b.Permit", boom, `running Permit plugin "b": boom`, "SchedulerError", 3, []string{"b.undo", "a.undo"}},
		{"b.PreBind", boom, `running PreBind plugin "b": boom`, "SchedulerError", 5, []string{"b.undo", "a.undo"}},
		{"a.PreBind", no, "no license", "Unschedulable", 4, []string{"b.undo", "a.undo"}},
		{"a.Bind", boom, `running Bind plugin "a": boom`, "SchedulerError", 6, []string{"b.undo", "a.undo"}},
		{"b.Bind", no, "no license", "Unschedulable", 7, []string{"b.undo", "a.undo"}},
	} {
		t.Run(tt.at+" "+tt.err.Error(), func(t *testing.T) {
			tr := trace{says: map[string]error{tt.at: tt.err}}
			runProfile(t, stepwise(&tr), scheduler.Options{}, func(t *testing.T, s *server, sched *scheduler.Scheduler) {
				s.pods.Put(pod("web", "3", "1Gi"))
				synctest.Wait()
				same(t, append(bound()[:tt.before+1], tt.undone...), tr.called())
				same(t, []string{
					"0s web: Warning Scheduling/FailedScheduling " + tt.message,
					"0s web: PodScheduled=False " + tt.reason + ": " + tt.message,
				}, s.said())
				if got := sched.Snapshot().Node("n").Requested.MilliCPU; got != 0 {
					t.Errorf("%dm are requested by a pod that was not bound", got)
				}
				if tt.before < 4 {
					same(t, nil, s.nominated()) // it never was on its way
				}
				if p, _ := s.pods.Get("default", "web"); p.Status.NominatedNodeName != "" {
					t.Errorf("the pod is nominated for %s", p.Status.NominatedNodeName)
				}
				same(t, tt.before < 4, sched.Counts().Waiting == 1 || errors.Is(tt.err, boom) && tt.before < 4)
				s.nodes.Put(node("m", "1", "1Gi")) // for those that wait for an event
				after(10 * time.Second)
				same(t, bound(), tr.called())
				same(t, "n", s.where()["web"])
			}, node("n", "4", "8Gi"))
		})
	}
}

// A nil *Refusal in an error is no error.
func TestNilRefusalIsNoError(t *testing.T) {
	tr := trace{says: map[string]error{"a.Reserve": (*scheduler.Refusal)(nil), "b.PreBind": (*scheduler.Refusal)(nil)}}
	profile := stepwise(&tr)
	profile.Plugins = append(profile.Plugins, scheduler.Enabled{Plugin: scheduler.ReserverFunc("nil", func(context.Context, *corev1.Pod, string) (func(), error) {
		return nil, (*scheduler.Refusal)(nil)
	})})
	runProfile(t, profile, scheduler.Options{}, func(t *testing.T, s *server, _ *scheduler.Scheduler) {
		s.pods.Put(pod("web", "3", "1Gi"))
		synctest.Wait()
		same(t, "n", s.where()["web"])
	}, node("n", "4", "8Gi"))
}

func TestAllBindersDecline(t *testing.T) {
	profile := stepwise(&trace{keep: true, says: map[string]error{"a.Bind": fmt.Errorf("not mine: %w", scheduler.ErrDeclined)}})
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, node("n", "4", "8Gi"))
		s.schedule(t, profile, scheduler.Options{}, func(*scheduler.Scheduler) {
			s.pods.Put(pod("web", "3", "1Gi"))
			synctest.Wait()
			same(t, "0s web: Warning Scheduling/FailedScheduling running Bind plugins: binder declined the pod", s.said()[0])
		})
	})
}

// waiting runs a test with a permitter that makes pods wait, while other pods go on.
func waiting(t *testing.T, limit time.Duration, test func(t *testing.T, s *server, sched *scheduler.Scheduler, w *scheduler.Wait, tr *trace)) {
	t.Helper()
	w := scheduler.NewWait(limit)
	tr := &trace{waits: map[string]*scheduler.Wait{"a": w}}
	runProfile(t, stepwise(tr), scheduler.Options{Writes: 1}, func(t *testing.T, s *server, sched *scheduler.Scheduler) {
		s.pods.Put(pod("web", "3", "1Gi"))
		after(5 * time.Second)
		same(t, []string{"a.Reserve", "b.Reserve", "a.Permit", "b.Permit"}, tr.called())
		same(t, []string{"web:n"}, s.nominated())
		tr.mu.Lock()
		tr.waits = nil
		tr.mu.Unlock()
		s.pods.Put(pod("other", "1", "1Gi"))
		synctest.Wait()
		same(t, "n", s.where()["other"])
		same(t, bound(), tr.called())
		s.said()
		test(t, s, sched, w, tr)
	}, node("n", "4", "8Gi"))
}

func TestPermitIsGivenLater(t *testing.T) {
	waiting(t, time.Minute, func(t *testing.T, s *server, _ *scheduler.Scheduler, w *scheduler.Wait, tr *trace) {
		same(t, true, w.Allow())
		synctest.Wait()
		same(t, []string{"5s web: Normal Binding/Scheduled Successfully assigned default/web to n"}, s.said())
		same(t, bound()[4:], tr.called())
		same(t, false, w.Refuse("too late"))
	})
}

func TestPermitIsRefusedLater(t *testing.T) {
	const message = "0/1 nodes are available: 1 the gang fell apart."
	waiting(t, time.Minute, func(t *testing.T, s *server, sched *scheduler.Scheduler, w *scheduler.Wait, tr *trace) {
		same(t, true, w.Refuse("the gang fell apart"))
		synctest.Wait()
		same(t, []string{"5s web: Warning Scheduling/FailedScheduling " + message, "5s web: PodScheduled=False Unschedulable: " + message}, s.said()[:2])
		same(t, []string{"b.undo", "a.undo"}, tr.called()[:2])
		same(t, []string{"web:n", "other:n", "web:"}, s.nominated()[:3])
		same(t, false, w.Allow())
	})
}

func TestPermitRunsOutOfTime(t *testing.T) {
	for limit, ends := range map[time.Duration]time.Duration{time.Minute: time.Minute, time.Hour: 15 * time.Minute} {
		message := fmt.Sprintf("0/1 nodes are available: 1 rejected due to timeout after waiting %v at plugin a.", ends)
		waiting(t, limit, func(t *testing.T, s *server, _ *scheduler.Scheduler, w *scheduler.Wait, tr *trace) {
			after(ends - 5*time.Second - time.Millisecond)
			same(t, nil, s.said())
			after(time.Millisecond)
			same(t, fmt.Sprintf("%v web: Warning Scheduling/FailedScheduling %s", ends, message), s.said()[0])
			same(t, []string{"b.undo", "a.undo"}, tr.called()[:2])
			same(t, false, w.Allow())
		})
	}
}

// All permitters are called, all must allow, one can refuse; an answer may come before the wait begins.
func TestPermitsOfSeveral(t *testing.T) {
	for name, tt := range map[string]struct {
		answer func(a, b *scheduler.Wait)
		bound  bool
	}{
		"one of two": {func(a, _ *scheduler.Wait) { a.Allow() }, false},
		"both":       {func(a, b *scheduler.Wait) { b.Allow(); a.Allow() }, true},
		"one no":     {func(_, b *scheduler.Wait) { b.Refuse("no") }, false},
	} {
		for _, early := range []bool{true, false} {
			t.Run(fmt.Sprint(name, early), func(t *testing.T) {
				a, b := scheduler.NewWait(time.Minute), scheduler.NewWait(time.Minute)
				if early {
					tt.answer(a, b)
				}
				tr := &trace{waits: map[string]*scheduler.Wait{"a": a, "b": b}}
				runProfile(t, stepwise(tr), scheduler.Options{}, func(t *testing.T, s *server, _ *scheduler.Scheduler) {
					s.pods.Put(pod("web", "3", "1Gi"))
					after(time.Second)
					if !early {
						tt.answer(a, b)
					}
					synctest.Wait()
					same(t, tt.bound, s.where()["web"] == "n")
				}, node("n", "4", "8Gi"))
			})
		}
	}
}

// A pod that goes while it waits releases its reservations at once.
func TestPodDeletedWhileWaiting(t *testing.T) {
	for name, gone := range map[string]func(*server){
		"deleted": func(s *server) { s.pods.Delete("default", "web") },
		"terminating": func(s *server) {
			p, _ := s.pods.Get("default", "web")
			p = p.DeepCopy()
			p.DeletionTimestamp = &metav1.Time{Time: time.Now()}
			s.pods.Put(p)
		},
	} {
		t.Run(name, func(t *testing.T) {
			waiting(t, time.Minute, func(t *testing.T, s *server, sched *scheduler.Scheduler, w *scheduler.Wait, tr *trace) {
				s.pods.Put(pod("next", "3", "1Gi"))
				synctest.Wait()
				same(t, "-", s.where()["next"])
				gone(s)
				synctest.Wait()
				same(t, []string{"b.undo", "a.undo"}, tr.called()[:2])
				same(t, "n", s.where()["next"])
				told := slices.ContainsFunc(s.said(), func(said string) bool { return strings.HasPrefix(said, "5s web: Warning") })
				same(t, name == "terminating", told)
				same(t, false, w.Allow()) // too late
			})
		})
	}
}

// A pod that goes during its reservations does not wait for permits.
func TestPodDeletedDuringReserve(t *testing.T) {
	tr := &trace{waits: map[string]*scheduler.Wait{"a": scheduler.NewWait(time.Minute)}}
	profile := stepwise(tr)
	var s *server
	profile.Plugins = append(profile.Plugins, scheduler.Enabled{Plugin: scheduler.ReserverFunc("Slow", func(context.Context, *corev1.Pod, string) (func(), error) {
		s.pods.Delete("default", "web")
		time.Sleep(time.Second)
		return nil, nil
	})})
	runProfile(t, profile, scheduler.Options{}, func(t *testing.T, is *server, sched *scheduler.Scheduler) {
		s = is
		s.pods.Put(pod("web", "3", "1Gi"))
		after(2 * time.Second)
		same(t, []string{"a.Reserve", "b.Reserve", "a.Permit", "b.Permit", "b.undo", "a.undo"}, tr.called())
		if got := sched.Snapshot().Node("n").Requested.MilliCPU; got != 0 {
			t.Errorf("%dm are requested by a deleted pod", got)
		}
	}, node("n", "4", "8Gi"))
}

// A waiting pod that another client binds stays bound.
func TestPodBoundByOthersWhileWaiting(t *testing.T) {
	waiting(t, time.Minute, func(t *testing.T, s *server, sched *scheduler.Scheduler, _ *scheduler.Wait, tr *trace) {
		p, _ := s.pods.Get("default", "web")
		s.pods.Put(on(p, "elsewhere"))
		synctest.Wait()
		same(t, []string{"b.undo", "a.undo"}, tr.called())
		same(t, nil, s.said())
		if got := sched.Snapshot().Node("n").Requested.MilliCPU; got != 1000 {
			t.Errorf("%dm are requested", got)
		}
	})
}

// hinted is a step that is helped by new nodes of a name.
type hinted struct {
	step
	node string
}

func (hinted) Events() scheduler.EventKind { return scheduler.NodeAdded }
func (h hinted) MayHelp(_ *corev1.Pod, e scheduler.Event) bool {
	return e.Node.Name == h.node
}

// Events while a pod waits count if it is refused in the end, as the plugin's hints say.
func TestEventsWhileAPodWaits(t *testing.T) {
	for name, tt := range map[string]struct {
		node string
		want bool
	}{"helps": {"helpful", true}, "does not": {"useless", false}} {
		t.Run(name, func(t *testing.T) {
			w := scheduler.NewWait(time.Minute)
			tr := &trace{waits: map[string]*scheduler.Wait{"a": w}}
			profile := defaults()
			profile.Plugins = append(profile.Plugins, scheduler.Enabled{Plugin: hinted{step{"a", tr}, "helpful"}})
			runProfile(t, profile, scheduler.Options{}, func(t *testing.T, s *server, _ *scheduler.Scheduler) {
				s.pods.Put(pod("web", "3", "1Gi"))
				synctest.Wait()
				s.nodes.Put(node(tt.node, "1", "1Gi"))
				synctest.Wait()
				tr.mu.Lock()
				tr.waits = nil
				tr.mu.Unlock()
				w.Refuse("not yet")
				after(time.Minute)
				same(t, tt.want, s.where()["web"] == "n")
			}, node("n", "4", "8Gi"))
		})
	}
}

// The end of Run undoes the reservations of pods that were not bound.
func TestRunEndsWhileAPodWaits(t *testing.T) {
	tr := &trace{waits: map[string]*scheduler.Wait{"a": scheduler.NewWait(time.Minute)}}
	runProfile(t, stepwise(tr), scheduler.Options{}, func(t *testing.T, s *server, _ *scheduler.Scheduler) {
		s.pods.Put(pod("web", "3", "1Gi"))
		synctest.Wait()
		tr.called()
	}, node("n", "4", "8Gi"))
	same(t, []string{"b.undo", "a.undo"}, tr.called())
}

// idle is a PreBinder that skips pods without a label.
type idle struct{ scheduler.PreBinder }

func (idle) SkipPreBind(pod *corev1.Pod, _ string) bool { return pod.Labels["slow"] == "" }

// PreBinders run for at most the configured number of pods at once, and pods without any do not wait for them.
func TestPreBindersAreBounded(t *testing.T) {
	var mu sync.Mutex
	running, most := 0, 0
	slow := scheduler.PreBinderFunc("Slow", func(context.Context, *corev1.Pod, string) error {
		mu.Lock()
		running++
		most = max(most, running)
		mu.Unlock()
		time.Sleep(time.Second)
		mu.Lock()
		running--
		mu.Unlock()
		return nil
	})
	profile := defaults()
	profile.Plugins = append(profile.Plugins, scheduler.Enabled{Plugin: idle{slow}})
	runProfile(t, profile, scheduler.Options{PreBinds: 2, Writes: 1}, func(t *testing.T, s *server, _ *scheduler.Scheduler) {
		for i := range 6 {
			p := pod(fmt.Sprint("slow-", i), "10m", "")
			p.Labels = map[string]string{"slow": "yes"}
			s.pods.Put(p)
		}
		s.pods.Put(pod("quick", "10m", ""))
		after(500 * time.Millisecond)
		same(t, "n", s.where()["quick"])
		same(t, false, slices.ContainsFunc(s.nominated(), func(n string) bool { return n == "quick:n" }))
		after(time.Second)
		mu.Lock()
		same(t, 2, most)
		mu.Unlock()
		after(2 * time.Second)
		for name, n := range s.where() {
			same(t, "n", n+name[:0])
		}
	}, node("n", "4", "8Gi"))
}

func TestNewNeedsABinder(t *testing.T) {
	_, err := scheduler.New(scheduler.Sources{}, defaults(), nil, nil, scheduler.Options{})
	if !errors.Is(err, scheduler.ErrProfile) {
		t.Errorf("error %v", err)
	}
}

// A PreBinder that was cancelled by somebody else than the scheduler failed.
func TestPreBinderThatIsCancelled(t *testing.T) {
	tr := trace{says: map[string]error{"b.PreBind": fmt.Errorf("attaching: %w", context.Canceled)}}
	runProfile(t, stepwise(&tr), scheduler.Options{}, func(t *testing.T, s *server, _ *scheduler.Scheduler) {
		s.pods.Put(pod("web", "3", "1Gi"))
		synctest.Wait()
		same(t, `0s web: PodScheduled=False SchedulerError: running PreBind plugin "b": attaching: context canceled`, s.said()[1])
		same(t, []string{"b.undo", "a.undo"}, tr.called()[6:])
	}, node("n", "4", "8Gi"))
}

// A pod without a PreBinder does not wait for those of others, whether it waited for a permit or not.
func TestPermittedPodsDoNotWaitForPreBinders(t *testing.T) {
	w := scheduler.NewWait(time.Minute)
	profile := also(permits(w), idle{idles(20 * time.Second)})
	runProfile(t, profile, scheduler.Options{PreBinds: 1}, func(t *testing.T, s *server, _ *scheduler.Scheduler) {
		p := pod("slow", "1", "")
		p.Labels = map[string]string{"slow": "yes"}
		s.pods.Put(p)
		s.pods.Put(pod("web", "1", ""))
		after(time.Second)
		w.Allow()
		synctest.Wait()
		same(t, map[string]string{"slow": "-", "web": "n"}, s.where())
	}, node("n", "4", "8Gi"))
}
