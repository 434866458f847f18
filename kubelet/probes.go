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
	"github.com/keelson-dev/keelson/kubelet/environment/expansion"
)

// Prober runs probes and hooks that go over the network: HTTP, TCP and gRPC. Exec probes go to
// the runtime.
type Prober interface {
	// Probe returns nil when the container answers well, and an error that says what is wrong
	// otherwise. An error with the method ProbeState() string says that the container could not be
	// asked, and counts neither way. It obeys the context, which carries the probe's time-out.
	Probe(ctx context.Context, target ProbeTarget) error
}

// ProbeFunc is a Prober made of a function.
type ProbeFunc func(ctx context.Context, target ProbeTarget) error

// Probe calls f.
func (f ProbeFunc) Probe(ctx context.Context, target ProbeTarget) error { return f(ctx, target) }

// ProbeTarget is what a probe is about. Pod, Container and Probe are shared and must not be
// changed.
type ProbeTarget struct {
	Pod       *corev1.Pod
	Container *corev1.Container
	// ContainerID is the runtime's id of the instance.
	ContainerID string
	// IPs are the pod's addresses.
	IPs   []string
	Probe *corev1.Probe
}

// probeKey is one probe of one container instance.
type probeKey struct {
	container string
	kind      probeKind
}

// probes runs the probes of a pod's running containers, each in a goroutine of its own, and keeps
// their results. A change of a result pokes the pod's worker.
type probes struct {
	w     *worker
	group sync.WaitGroup

	mu      sync.Mutex
	results map[probeKey]probeResult
	active  map[probeKey]context.CancelFunc
	dirty   bool
}

// newProbes takes over what an earlier kubelet has said of containers that run: a restart of the
// kubelet alone makes nothing unready.
func newProbes(w *worker, status *corev1.PodStatus) *probes {
	p := &probes{w: w, results: map[probeKey]probeResult{}, active: map[probeKey]context.CancelFunc{}}
	for _, s := range slices.Concat(status.InitContainerStatuses, status.ContainerStatuses) {
		id := containerIDOf(&s)
		if id == "" || s.State.Running == nil {
			continue
		}
		if s.Started != nil && *s.Started {
			p.results[probeKey{id, startupProbe}] = probeSuccess
		}
		if s.Ready {
			p.results[probeKey{id, readinessProbe}] = probeSuccess
		}
	}
	return p
}

// result is the last result of a probe.
func (p *probes) result(id string, k probeKind) probeResult {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.results[probeKey{id, k}]
}

// changed reports whether a result has changed since it was asked last.
func (p *probes) changed() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	was := p.dirty
	p.dirty = false
	return was
}

// follow starts the probes of containers that run and stops those of containers that do not.
func (p *probes) follow(ctx context.Context, pod *corev1.Pod, o observation) {
	p.mu.Lock()
	defer p.mu.Unlock()
	alive, ips := map[string]bool{}, o.ips()
	for _, o := range o.containers {
		if o.State != cri.ContainerRunning {
			continue
		}
		c, _, ok := findContainer(pod, o.Metadata.Name)
		if !ok {
			continue
		}
		alive[o.ID] = true
		target := ProbeTarget{Pod: pod, Container: c, ContainerID: o.ID, IPs: ips}
		p.start(ctx, target, startupProbe, o.StartedAt)
		if c.StartupProbe != nil && p.results[probeKey{o.ID, startupProbe}] != probeSuccess {
			continue
		}
		p.start(ctx, target, livenessProbe, o.StartedAt)
		p.start(ctx, target, readinessProbe, o.StartedAt)
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

// start starts a probe of a container that has one, unless it is running or has come to its end.
// The lock is held.
func (p *probes) start(ctx context.Context, target ProbeTarget, k probeKind, started time.Time) {
	target.Probe = probeOf(target.Container, k)
	key := probeKey{target.ContainerID, k}
	if _, running := p.active[key]; running || target.Probe == nil {
		return
	}
	if k == startupProbe && p.results[key] != probeUnknown { // by an earlier kubelet's word
		return
	}
	// The probe outlives the worker's turn; stop and follow end it.
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	p.active[key] = cancel
	run := probeRun{probes: p, key: key, started: started, target: target}
	p.group.Go(func() { run.loop(ctx) })
}

func probeOf(c *corev1.Container, k probeKind) *corev1.Probe {
	switch k {
	case startupProbe:
		return c.StartupProbe
	case livenessProbe:
		return c.LivenessProbe
	default:
		return c.ReadinessProbe
	}
}

// hush stops the probes that would restart containers: the pod is on its way out.
func (p *probes) hush() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for key, cancel := range p.active {
		if key.kind != readinessProbe {
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

func (p *probes) set(key probeKey, r probeResult) {
	p.mu.Lock()
	_, wanted := p.active[key]
	change := wanted && p.results[key] != r
	if change {
		p.results[key] = r
		p.dirty = true
	}
	p.mu.Unlock()
	if change {
		p.w.poke()
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

// loop probes until the context ends, or until nothing more can come of it: a start-up probe that
// has its result, a liveness probe that has failed.
func (r probeRun) loop(ctx context.Context) {
	spec := r.target.Probe
	period := time.Duration(orDefault(spec.PeriodSeconds, 10)) * time.Second
	next := r.started.Add(time.Duration(spec.InitialDelaySeconds) * time.Second)
	timer := time.NewTimer(time.Until(next))
	defer timer.Stop()
	var last probeResult
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
		if result == probeUnknown {
			continue
		}
		if result != last {
			last, count = result, 0
		}
		count++
		if result == probeFailure && count < orDefault(spec.FailureThreshold, 3) ||
			result == probeSuccess && count < orDefault(spec.SuccessThreshold, 1) {
			continue
		}
		r.probes.set(r.key, result)
		if r.key.kind == startupProbe || r.key.kind == livenessProbe && result == probeFailure {
			return
		}
	}
}

// once probes once and tells of a failure in an event.
func (r probeRun) once(ctx context.Context) probeResult {
	spec := r.target.Probe
	limit := time.Duration(orDefault(spec.TimeoutSeconds, 1)) * time.Second
	k, pod, name := r.probes.w.k, r.target.Pod, r.target.Container.Name
	failed := func(output string) probeResult {
		if ctx.Err() == nil {
			k.containerEvent(subject{pod, name, r.target.ContainerID}, corev1.EventTypeWarning, "Unhealthy",
				fmt.Sprintf("%s probe failed: %s", r.key.kind, output))
		}
		return probeFailure
	}
	errored := func(state string, err error) probeResult {
		if ctx.Err() == nil {
			k.containerEvent(subject{pod, name, r.target.ContainerID}, corev1.EventTypeWarning, "Unhealthy",
				fmt.Sprintf("%s probe errored and resulted in %s state: %v", r.key.kind, state, err))
		}
		return probeUnknown
	}
	if spec.Exec == nil {
		limited, cancel := context.WithTimeout(ctx, limit)
		defer cancel()
		err := k.options.Host.Prober.Probe(limited, r.target)
		var unasked interface{ ProbeState() string }
		switch {
		case err == nil:
			return probeSuccess
		case errors.As(err, &unasked):
			return errored(unasked.ProbeState(), err)
		default:
			return failed(err.Error())
		}
	}
	result, err := k.runtime.ExecSync(ctx, r.target.ContainerID, expansion.Args(spec.Exec.Command, literal(r.target.Container)), limit)
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return failed(fmt.Sprintf("command timed out: %q timed out after %v", strings.Join(spec.Exec.Command, " "), limit))
	case err != nil:
		return errored("unknown", err)
	case result.ExitCode != 0:
		return failed(string(result.Stdout) + string(result.Stderr))
	}
	return probeSuccess
}
