package kubelet_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/keelson-dev/keelson/cri"
	"github.com/keelson-dev/keelson/cri/simulated"
	"github.com/keelson-dev/keelson/kubelet"
)

// probeScript makes the first instance of a container answer successive probes according to the letters, the last of
// which repeats forever: . succeeds, x fails, ? cannot be probed, and ~ never answers. Later instances succeed.
type probeScript struct {
	letters string
	asked   atomic.Int32
}

func (s *probeScript) letter(op simulated.Operation) byte {
	if op.Container.Attempt > 0 {
		return '.'
	}
	n := int(s.asked.Add(1))
	return s.letters[min(n, len(s.letters))-1]
}

func (s *probeScript) options(program simulated.Program) simulated.Options {
	failing := false
	return simulated.Options{
		Behave: func(op simulated.Operation) simulated.Outcome {
			if op.Verb != simulated.Exec {
				return simulated.Outcome{}
			}
			switch s.letter(op) {
			case '?':
				return simulated.Outcome{Err: errors.New("no such process")}
			case '~':
				return simulated.Outcome{Hang: true}
			case 'x':
				failing = true
			default:
				failing = false
			}
			return simulated.Outcome{}
		},
		Program: func(p simulated.Process) simulated.Program {
			if p.Container.Attempt > 0 {
				return simulated.Program{}
			}
			out := program
			out.Exec = func([]string) cri.ExecResult {
				if failing {
					return cri.ExecResult{ExitCode: 1}
				}
				return cri.ExecResult{}
			}
			return out
		},
	}
}

// TestProbeThresholds: how many results it takes for a container to become ready, unready or unfit.
func TestProbeThresholds(t *testing.T) {
	const started, ready, again = "main=running", "Ready main=running", "Ready main=running#1"
	for name, c := range map[string]struct {
		kind             string
		letters          string
		success, failure int32
		period           int32
		want             []string
	}{
		"one success is enough":           {kind: "readiness", letters: "x.", want: []string{"0s " + started, "5s " + ready}},
		"three successes":                 {kind: "readiness", letters: "...", success: 3, want: []string{"0s " + started, "10s " + ready}},
		"three successes in a row":        {kind: "readiness", letters: "..x...", success: 3, failure: 1, want: []string{"0s " + started, "25s " + ready}},
		"three failures in a row":         {kind: "readiness", letters: ".xx.xxx.", want: []string{"0s " + ready, "30s " + started, "35s " + ready}},
		"one failure is enough":           {kind: "readiness", letters: ".x.", failure: 1, want: []string{"0s " + ready, "5s " + started, "10s " + ready}},
		"no answer counts neither way":    {kind: "readiness", letters: ".xx?x.", want: []string{"0s " + ready, "20s " + started, "25s " + ready}},
		"nothing but errors":              {kind: "readiness", letters: ".?", failure: 1, want: []string{"0s " + ready}},
		"a timeout is a failure":          {kind: "readiness", letters: ".~.", failure: 1, want: []string{"0s " + ready, "6s " + started, "11s " + ready}},
		"the usual period":                {kind: "readiness", letters: "x.", period: -1, want: []string{"0s " + started, "10s " + ready}},
		"unfit after three in a row":      {kind: "liveness", letters: ".xx.xxx", want: []string{"0s " + ready, "30s " + again}},
		"unfit after one":                 {kind: "liveness", letters: ".x", failure: 1, want: []string{"0s " + ready, "5s " + again}},
		"unfit without an answer":         {kind: "liveness", letters: ".~", failure: 1, want: []string{"0s " + ready, "6s " + again}},
		"unreachable is not unfit":        {kind: "liveness", letters: ".?", failure: 1, want: []string{"0s " + ready}},
		"started at last":                 {kind: "startup", letters: "xx.x", want: []string{"0s " + started, "10s " + ready}},
		"not started in time":             {kind: "startup", letters: "xxx", want: []string{"0s " + started, "10s " + again}},
		"not started, with a broken line": {kind: "startup", letters: "x?xx", want: []string{"0s " + started, "15s " + again}},
	} {
		t.Run(name, func(t *testing.T) {
			script := &probeScript{letters: c.letters}
			simulate(t, script.options(simulated.Program{}), kubelet.Options{}, func(n *node) {
				n.pods.Put(newPod("web", func(p *corev1.Pod) {
					probe := execProbe(5, 0)
					probe.SuccessThreshold, probe.FailureThreshold = c.success, c.failure
					if c.period < 0 {
						probe.PeriodSeconds = 0
					}
					container := &p.Spec.Containers[0]
					*map[string]**corev1.Probe{
						"readiness": &container.ReadinessProbe, "liveness": &container.LivenessProbe, "startup": &container.StartupProbe,
					}[c.kind] = probe
				}))
				n.after(58 * time.Second)
				n.mu.Lock()
				for i := range n.changes {
					n.changes[i] = strings.Replace(n.changes[i], " web Running", "", 1)
				}
				n.mu.Unlock()
				n.expectStatuses(c.want...)
			})
		})
	}
}

// TestProbesThatHaveSaidEnough: an unfit container is not probed again while it is stopped, nor a started one by its
// startup probe.
func TestProbesThatHaveSaidEnough(t *testing.T) {
	unfit := &probeScript{letters: "x"}
	simulate(t, unfit.options(simulated.Program{IgnoresStop: true}), kubelet.Options{}, func(n *node) {
		n.pods.Put(newPod("web", func(p *corev1.Pod) { p.Spec.Containers[0].LivenessProbe = execProbe(5, 0) }))
		n.after(39 * time.Second) // 10 s until it is unfit, and 30 s to stop
		if got := unfit.asked.Load(); got != 3 {
			t.Errorf("a container that ends was asked %d times, want 3", got)
		}
	})
	fit := &probeScript{letters: ".x"}
	simulate(t, fit.options(simulated.Program{}), kubelet.Options{}, func(n *node) {
		n.pods.Put(newPod("web", func(p *corev1.Pod) { p.Spec.Containers[0].StartupProbe = execProbe(5, 0) }))
		n.after(time.Minute)
		if got := fit.asked.Load(); got != 1 {
			t.Errorf("a container that has started was asked %d times, want 1", got)
		}
	})
}

// TestStartedIsNotAskedTwice: a startup probe that has succeeded is not run again, even by the next kubelet.
func TestStartedIsNotAskedTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		script := &probeScript{letters: ".x"}
		w := newWorld(t)
		rt := simulated.New(script.options(simulated.Program{}))
		defer rt.Close()
		for range 2 {
			n := w.run(rt, kubelet.Options{})
			if len(n.containers()) == 0 {
				w.pods.Put(newPod("web", func(p *corev1.Pod) { p.Spec.Containers[0].StartupProbe = execProbe(5, 0) }))
			}
			n.after(time.Minute)
			n.stop()
		}
		if got := script.asked.Load(); got != 1 {
			t.Errorf("a container that has started was asked %d times, want 1", got)
		}
		w.expectStatuses("0s web Running Ready main=running")
	})
}

// TestNotStartedIsAskedAgain: a container that had not started under an earlier kubelet is asked by the next, and not by
// its other probes before.
func TestNotStartedIsAskedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		rt := simulated.New(simulated.Options{})
		l := &probeLog{counts: map[string]int{}, answer: func(_ context.Context, path string) error {
			if path == "/start" && time.Since(w.start) < 20*time.Second {
				return errors.New("not yet")
			}
			return nil
		}}
		o := kubelet.Options{Host: kubelet.Host{Prober: l}}
		n := w.run(rt, o)
		w.pods.Put(newPod("web", withAllProbes, func(p *corev1.Pod) {
			p.Spec.Containers[0].StartupProbe = getProbe("/start")
			p.Spec.Containers[0].StartupProbe.FailureThreshold = 100
		}))
		n.after(10500 * time.Millisecond)
		n.stop()
		n = w.run(rt, o)
		n.after(5 * time.Second)
		if got := l.asked("/ready") + l.asked("/live"); got > 0 {
			t.Errorf("asked %d times before it has started", got)
		}
		n.after(10 * time.Second)
		w.expectStatuses("0s web Running main=running", "20.5s web Running Ready main=running")
		n.stop()
		rt.Close()
	})
}

// probeLog is a Prober that counts the probes of each path.
type probeLog struct {
	mu     sync.Mutex
	counts map[string]int
	answer func(ctx context.Context, path string) error
}

func (l *probeLog) Probe(ctx context.Context, target kubelet.ProbeTarget) error {
	path := target.Probe.HTTPGet.Path
	l.mu.Lock()
	l.counts[path]++
	answer := l.answer
	l.mu.Unlock()
	if answer == nil {
		return nil
	}
	return answer(ctx, path)
}

// asked returns how often a path was probed.
func (l *probeLog) asked(path string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.counts[path]
}

func getProbe(path string) *corev1.Probe {
	return &corev1.Probe{PeriodSeconds: 1, ProbeHandler: corev1.ProbeHandler{
		HTTPGet: &corev1.HTTPGetAction{Path: path, Port: intstr.FromInt32(80)},
	}}
}

func withAllProbes(p *corev1.Pod) {
	c := &p.Spec.Containers[0]
	c.LivenessProbe, c.ReadinessProbe = getProbe("/live"), getProbe("/ready")
}

// TestReadyIsAskedAgain: what was ready under an earlier kubelet is so until its probe says otherwise.
func TestReadyIsAskedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		rt := simulated.New(simulated.Options{})
		l := &probeLog{counts: map[string]int{}}
		o := kubelet.Options{Host: kubelet.Host{Prober: l}}
		n := w.run(rt, o)
		w.pods.Put(newPod("web", withAllProbes))
		n.after(5 * time.Second)
		n.stop()
		l.mu.Lock()
		l.answer = func(_ context.Context, path string) error {
			if path == "/ready" {
				return errors.New("not yet")
			}
			return nil
		}
		l.mu.Unlock()
		before := l.asked("/ready")
		n = w.run(rt, o)
		n.after(time.Minute)
		if got := summary(n.pod("web")); got != "web Running main=running" || l.asked("/ready") < before+50 {
			t.Errorf("%s, asked %d times", got, l.asked("/ready")-before)
		}
		n.stop()
		rt.Close()
	})
}

// TestProbesOfAPodThatEnds: in a terminating pod, only readiness probes continue, until the end.
func TestProbesOfAPodThatEnds(t *testing.T) {
	log := &probeLog{counts: map[string]int{}}
	rt := simulated.Options{Program: func(simulated.Process) simulated.Program { return simulated.Program{StopAfter: 20 * time.Second} }}
	simulate(t, rt, kubelet.Options{Host: kubelet.Host{Prober: log}}, func(n *node) {
		n.pods.Put(newPod("web", withAllProbes))
		n.after(5500 * time.Millisecond)
		n.remove("web", 30)
		n.after(time.Millisecond)
		live, ready := log.asked("/live"), log.asked("/ready")
		if live != 6 || ready != 6 {
			t.Errorf("asked %d and %d times before, want 6", live, ready)
		}
		log.mu.Lock()
		log.answer = func(context.Context, string) error { return errors.New("shutting down") }
		log.mu.Unlock()
		n.after(10 * time.Second)
		if got := log.asked("/live"); got != live {
			t.Errorf("asked for its liveness %d times while it ends", got-live)
		}
		if got := log.asked("/ready"); got != ready+10 {
			t.Errorf("asked for its readiness %d times while it ends, want 10", got-ready)
		}
		n.expectEventsAbout("Killing", "5.5s web spec.containers{main} Normal Killing: Stopping container main")
		n.after(time.Minute)
		if got := log.asked("/ready"); got != ready+20 {
			t.Errorf("asked for its readiness %d times, and it ended after 20 s", got-ready)
		}
	})
}

// TestProbesOfAPodThatHasEnded: a failed pod stays in the API, but its probes stop.
func TestProbesOfAPodThatHasEnded(t *testing.T) {
	log := &probeLog{counts: map[string]int{}}
	simulate(t, simulated.Options{}, kubelet.Options{Host: kubelet.Host{Prober: log}}, func(n *node) {
		n.pods.Put(newPod("web", withAllProbes, func(p *corev1.Pod) { p.Spec.ActiveDeadlineSeconds = new(int64(5)) }))
		n.after(6 * time.Second)
		n.expectStatuses("0s web Running Ready main=running", "5s web Failed (DeadlineExceeded) main=Completed(0)")
		live, ready := log.asked("/live"), log.asked("/ready")
		n.after(time.Minute)
		if a, b := log.asked("/live"), log.asked("/ready"); live == 0 || ready == 0 || a != live || b != ready {
			t.Errorf("a pod that has ended was asked %d and %d times, %d and %d before", a, b, live, ready)
		}
	})
}

type unprobed struct{ error }

func (unprobed) ProbeState() string { return "unknown" }

// TestNetworkProbes: network probes have the probe's timeout, and a container that cannot be probed is not unfit.
func TestNetworkProbes(t *testing.T) {
	var live, ready atomic.Int64
	log := &probeLog{counts: map[string]int{}, answer: func(ctx context.Context, path string) error {
		until, limited := ctx.Deadline()
		if !limited {
			return nil
		}
		if path == "/live" {
			live.Store(int64(time.Until(until)))
			return unprobed{errors.New("no address")}
		}
		ready.Store(int64(time.Until(until)))
		<-ctx.Done()
		return ctx.Err()
	}}
	simulate(t, simulated.Options{}, kubelet.Options{Host: kubelet.Host{Prober: log}}, func(n *node) {
		n.pods.Put(newPod("web", withAllProbes, func(p *corev1.Pod) {
			p.Spec.Containers[0].ReadinessProbe.TimeoutSeconds = 4
			p.Spec.Containers[0].LivenessProbe.FailureThreshold = 1
			p.Spec.Containers[0].LivenessProbe.PeriodSeconds = 60
		}))
		n.after(9 * time.Second)
		n.expectStatuses("0s web Running main=running")
		if a, b := time.Duration(live.Load()), time.Duration(ready.Load()); a != time.Second || b != 4*time.Second {
			t.Errorf("the probes have %v and %v, want a second and 4 s", a, b)
		}
		n.expectEventsAbout("Unhealthy",
			"0s web spec.containers{main} Warning Unhealthy: Liveness probe errored and resulted in unknown state: no address",
			"4s web spec.containers{main} Warning Unhealthy: Readiness probe failed: context deadline exceeded",
			"9s web spec.containers{main} Warning Unhealthy: Readiness probe failed: context deadline exceeded",
		)
	})
}

// TestWhatHasEndedIsNotProbed: a container that has ended is not probed any more.
func TestWhatHasEndedIsNotProbed(t *testing.T) {
	var asked atomic.Int32
	rt := simulated.Options{
		Behave: func(op simulated.Operation) simulated.Outcome {
			if op.Verb == simulated.Exec {
				asked.Add(1)
			}
			return simulated.Outcome{}
		},
		Program: func(p simulated.Process) simulated.Program {
			return simulated.Program{Exits: p.Container.Name == "main", After: 12 * time.Second}
		},
	}
	simulate(t, rt, kubelet.Options{}, func(n *node) {
		n.pods.Put(newPod("web", func(p *corev1.Pod) {
			p.Spec.RestartPolicy = corev1.RestartPolicyNever
			p.Spec.Containers[0].LivenessProbe = execProbe(5, 0)
			p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: "other", Image: "nginx"})
		}))
		n.after(time.Minute)
		if got := asked.Load(); got != 3 {
			t.Errorf("it was probed %d times in 12 s", got)
		}
		n.expectEventsAbout("Unhealthy")
	})
}
