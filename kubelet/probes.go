package kubelet

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/cri"
	"github.com/keelson-dev/keelson/kubelet/decision"
	"github.com/keelson-dev/keelson/kubelet/environment/expansion"
)

// Prober runs probes and hooks that go over the network: HTTP, TCP and gRPC. Exec probes go to
// the runtime.
type Prober interface {
	// Probe returns nil if the probe succeeds, and an error that describes the failure otherwise. An error with the
	// method ProbeState() string means that the probe could not be run, and counts neither way. Probe obeys the
	// context, which carries the probe's timeout.
	Probe(ctx context.Context, target ProbeTarget) error
}

// ProbeFunc adapts a function to a Prober.
type ProbeFunc func(ctx context.Context, target ProbeTarget) error

// Probe calls f.
func (f ProbeFunc) Probe(ctx context.Context, target ProbeTarget) error { return f(ctx, target) }

// ProbeTarget is the target of a probe. Pod, Container and Probe are shared and must not be modified.
type ProbeTarget struct {
	Pod       *corev1.Pod
	Container *corev1.Container
	// ContainerID is the runtime's ID of the container instance.
	ContainerID string
	// IPs are the pod's addresses.
	IPs   []string
	Probe *corev1.Probe
}

// probeKey identifies one probe of one container instance.
type probeKey struct {
	container string
	kind      decision.ProbeKind
}

// probes runs the probes of a pod's running containers, each in its own goroutine, and keeps their results. A changed
// result pokes the pod's worker.
type probes struct {
	exec   cri.Executor
	prober Prober
	recorder
	poke  func()
	group sync.WaitGroup

	mu      sync.Mutex
	results map[probeKey]decision.ProbeResult
	active  map[probeKey]context.CancelFunc
	dirty   bool
}

// newProbes takes over the results that an earlier kubelet reported for running containers, so that a restart of the
// kubelet makes nothing unready.
func newProbes(w *parts, poke func(), status *corev1.PodStatus) *probes {
	p := &probes{
		exec: w.runtime, prober: w.host.Prober, recorder: w.recorder, poke: poke,
		results: map[probeKey]decision.ProbeResult{}, active: map[probeKey]context.CancelFunc{},
	}
	for _, s := range slices.Concat(status.InitContainerStatuses, status.ContainerStatuses) {
		id := decision.InstanceID(&s)
		if id == "" || s.State.Running == nil {
			continue
		}
		if s.Started != nil && *s.Started {
			p.results[probeKey{id, decision.Startup}] = decision.ProbeSuccess
		}
		if s.Ready {
			p.results[probeKey{id, decision.Readiness}] = decision.ProbeSuccess
		}
	}
	return p
}

// result is the last result of a probe.
func (p *probes) result(id string, k decision.ProbeKind) decision.ProbeResult {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.results[probeKey{id, k}]
}

// changed reports whether a result has changed since the last call.
func (p *probes) changed() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	was := p.dirty
	p.dirty = false
	return was
}

// follow starts the probes of containers that run and stops those of containers that do not.
func (p *probes) follow(ctx context.Context, pod *corev1.Pod, o decision.Observation) {
	p.mu.Lock()
	defer p.mu.Unlock()
	alive, ips := map[string]bool{}, o.IPs()
	for _, o := range o.Containers {
		if o.State != cri.ContainerRunning {
			continue
		}
		c, _, ok := decision.Container(pod, o.Metadata.Name)
		if !ok {
			continue
		}
		alive[o.ID] = true
		target := ProbeTarget{Pod: pod, Container: c, ContainerID: o.ID, IPs: ips}
		p.start(ctx, target, decision.Startup, o.StartedAt)
		if c.StartupProbe != nil && p.results[probeKey{o.ID, decision.Startup}] != decision.ProbeSuccess {
			continue
		}
		p.start(ctx, target, decision.Liveness, o.StartedAt)
		p.start(ctx, target, decision.Readiness, o.StartedAt)
	}
	for key, cancel := range p.active {
		if !alive[key.container] {
			cancel()
			delete(p.active, key)
		}
	}
	for key := range p.results {
		if !alive[key.container] {
			delete(p.results, key)
		}
	}
}

// start starts a probe of a container that has one, unless it is running or done. The lock is held.
func (p *probes) start(ctx context.Context, target ProbeTarget, k decision.ProbeKind, started time.Time) {
	target.Probe = probeOf(target.Container, k)
	key := probeKey{target.ContainerID, k}
	if _, running := p.active[key]; running || target.Probe == nil {
		return
	}
	if k == decision.Startup && p.results[key] != decision.ProbeUnknown { // as an earlier kubelet reported
		return
	}
	// The probe outlives the worker's turn; stop and follow end it.
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	p.active[key] = cancel
	run := probeRun{probes: p, key: key, started: started, target: target}
	p.group.Go(func() { run.loop(ctx) })
}

func probeOf(c *corev1.Container, k decision.ProbeKind) *corev1.Probe {
	switch k {
	case decision.Startup:
		return c.StartupProbe
	case decision.Liveness:
		return c.LivenessProbe
	default:
		return c.ReadinessProbe
	}
}

// stopRestarting stops the probes that could restart containers: the pod is terminating.
func (p *probes) stopRestarting() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for key, cancel := range p.active {
		if key.kind != decision.Readiness {
			cancel()
		}
	}
}

// stop ends all probes and waits for them.
func (p *probes) stop() {
	p.mu.Lock()
	for _, cancel := range p.active {
		cancel()
	}
	p.mu.Unlock()
	p.group.Wait()
}

func (p *probes) set(key probeKey, r decision.ProbeResult) {
	p.mu.Lock()
	_, wanted := p.active[key]
	change := wanted && p.results[key] != r
	if change {
		p.results[key] = r
		p.dirty = true
	}
	p.mu.Unlock()
	if change {
		p.poke()
	}
}

// probeRun is one probe being run periodically.
type probeRun struct {
	probes  *probes
	key     probeKey
	started time.Time
	target  ProbeTarget
}

func orDefault(v, fallback int32) int32 {
	if v <= 0 {
		return fallback
	}
	return v
}

// loop probes until the context ends or the result is final: when a startup probe has its result, or a liveness probe
// has failed.
func (r probeRun) loop(ctx context.Context) {
	spec := r.target.Probe
	period := time.Duration(orDefault(spec.PeriodSeconds, 10)) * time.Second
	next := r.started.Add(time.Duration(spec.InitialDelaySeconds) * time.Second)
	timer := time.NewTimer(time.Until(next))
	defer timer.Stop()
	var last decision.ProbeResult
	count := int32(0)
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		result := r.once(ctx)
		if ctx.Err() != nil {
			return
		}
		timer.Reset(period)
		if result == decision.ProbeUnknown {
			continue
		}
		if result != last {
			last, count = result, 0
		}
		count++
		if result == decision.ProbeFailure && count < orDefault(spec.FailureThreshold, 3) ||
			result == decision.ProbeSuccess && count < orDefault(spec.SuccessThreshold, 1) {
			continue
		}
		r.probes.set(r.key, result)
		if r.key.kind == decision.Startup || r.key.kind == decision.Liveness && result == decision.ProbeFailure {
			return
		}
	}
}

// once probes once and records a failure in an event.
func (r probeRun) once(ctx context.Context) decision.ProbeResult {
	spec := r.target.Probe
	limit := time.Duration(orDefault(spec.TimeoutSeconds, 1)) * time.Second
	pod, name := r.target.Pod, r.target.Container.Name
	failed := func(output string) decision.ProbeResult {
		if ctx.Err() == nil {
			r.probes.containerEvent(subject{pod, name, r.target.ContainerID}, corev1.EventTypeWarning, "Unhealthy",
				fmt.Sprintf("%s probe failed: %s", r.key.kind, output))
		}
		return decision.ProbeFailure
	}
	errored := func(state string, err error) decision.ProbeResult {
		if ctx.Err() == nil {
			r.probes.containerEvent(subject{pod, name, r.target.ContainerID}, corev1.EventTypeWarning, "Unhealthy",
				fmt.Sprintf("%s probe errored and resulted in %s state: %v", r.key.kind, state, err))
		}
		return decision.ProbeUnknown
	}
	if spec.Exec == nil {
		limited, cancel := context.WithTimeout(ctx, limit)
		defer cancel()
		err := r.probes.prober.Probe(limited, r.target)
		var unprobed interface{ ProbeState() string }
		switch {
		case err == nil:
			return decision.ProbeSuccess
		case errors.As(err, &unprobed):
			return errored(unprobed.ProbeState(), err)
		default:
			return failed(err.Error())
		}
	}
	result, err := r.probes.exec.ExecSync(ctx, r.target.ContainerID, expansion.Args(spec.Exec.Command, literal(r.target.Container)), limit)
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return failed(fmt.Sprintf("command timed out: %q timed out after %v", strings.Join(spec.Exec.Command, " "), limit))
	case err != nil:
		return errored("unknown", err)
	case result.ExitCode != 0:
		return failed(string(result.Stdout) + string(result.Stderr))
	}
	return decision.ProbeSuccess
}
