package simulated

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/keelson-dev/keelson/cri"
)

// Name and version that the Runtime reports.
const (
	Name    = "simulated"
	version = "1.0"
)

var (
	_ cri.RuntimeService   = (*Runtime)(nil)
	_ cri.ImageService     = (*Runtime)(nil)
	_ cri.EventSource      = (*Runtime)(nil)
	_ cri.StatsReader      = (*Runtime)(nil)
	_ cri.FilesystemReader = (*Runtime)(nil)
	_ cri.LogReopener      = (*Runtime)(nil)
	_ cri.Resizer          = (*Runtime)(nil)
	_ cri.StreamHandler    = (*Runtime)(nil)
	_ cri.LogOpener        = (*Runtime)(nil)
)

// Runtime is a simulated container runtime. Make one with New.
type Runtime struct {
	behave  func(Operation) Outcome
	program func(Process) Program
	closing chan struct{}
	timers  sync.WaitGroup

	mu         sync.Mutex // guards everything below
	closed     bool
	sequence   uint64
	sandboxes  map[string]*sandbox
	containers map[string]*container
	byName     map[string]string // sandbox and container names in use, to ids
	addresses  *pool
	images     library
	condition  cri.RuntimeStatus
	readers    readers
	spent      uint64 // CPU time of containers that have ended, in nanoseconds
}

type sandbox struct {
	sequence uint64
	status   cri.SandboxStatus
}

type container struct {
	sequence uint64
	status   cri.ContainerStatus
	sandbox  *sandbox
	process  Process
	program  Program
	asked    time.Time     // when it was first asked to stop
	kill     time.Time     // when it will be killed, once asked to stop
	timer    *time.Timer   // its next end, if any
	done     chan struct{} // closed when it has exited
	written  []cri.LogLine // by WriteLog
	wake     chan struct{} // closed when there is more in written; nil while nobody waits
	metered  time.Time     // when Program.Load was last read
	spent    uint64        // CPU time until then, in nanoseconds
}

// New makes a runtime with no pods.
func New(o Options) *Runtime {
	prefix := o.Addresses
	if !prefix.IsValid() {
		prefix = netip.MustParsePrefix("10.88.0.0/16")
	}
	r := &Runtime{
		behave: o.Behave, program: o.Program,
		closing:    make(chan struct{}),
		sandboxes:  map[string]*sandbox{},
		containers: map[string]*container{},
		byName:     map[string]string{},
		addresses:  newPool(prefix),
		images:     library{byName: map[string]cri.Image{}, size: cmp.Or(o.ImageSize, 50<<20)},
		condition: cri.RuntimeStatus{
			Runtime: cri.Condition{Ready: true}, Network: cri.Condition{Ready: true},
		},
		readers: readers{all: map[*stream]struct{}{}, buffer: cmp.Or(o.EventBuffer, 4096)},
	}
	for _, name := range o.Images {
		r.images.add(name)
	}
	if o.Handlers != nil {
		r.condition.Handlers = []cri.RuntimeHandler{{}}
	}
	for _, name := range o.Handlers {
		r.condition.Handlers = append(r.condition.Handlers, cri.RuntimeHandler{Name: name})
	}
	return r
}

// Close ends the runtime like a power cut: the timers of its containers stop, streams of events end and every later
// call fails with cri.ErrUnavailable. It may be called more than once.
func (r *Runtime) Close() {
	r.mu.Lock()
	if !r.closed {
		r.closed = true
		close(r.closing)
		for _, c := range r.containers {
			r.stopTimer(c)
		}
		for s := range r.readers.all {
			s.fail(cri.ErrUnavailable)
		}
	}
	r.mu.Unlock()
	r.timers.Wait()
}

// SetStatus makes the runtime report the status from now on.
func (r *Runtime) SetStatus(s cri.RuntimeStatus) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.condition = s
}

// perform applies Options.Behave to an operation. A nil result means that the operation takes place.
func (r *Runtime) perform(ctx context.Context, op Operation) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	var out Outcome
	if r.behave != nil {
		out = r.behave(op)
	}
	if out.Hang || out.Delay > 0 {
		if err := r.pause(ctx, out); err != nil {
			return err
		}
	}
	if out.Err != nil {
		return out.Err
	}
	select {
	case <-r.closing:
		return cri.ErrUnavailable
	default:
		return nil
	}
}

func (r *Runtime) pause(ctx context.Context, out Outcome) error {
	var elapsed <-chan time.Time
	if !out.Hang {
		timer := time.NewTimer(out.Delay)
		defer timer.Stop()
		elapsed = timer.C
	}
	select {
	case <-elapsed:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-r.closing:
		return cri.ErrUnavailable
	}
}

// identify derives an ID of the usual form from the owner's identity.
func identify(parts ...any) string {
	sum := sha256.Sum256(fmt.Append(nil, parts...))
	return hex.EncodeToString(sum[:])
}

func (r *Runtime) next() uint64 {
	r.sequence++
	return r.sequence
}

// Version is "simulated".
func (r *Runtime) Version(ctx context.Context) (cri.Version, error) {
	if err := r.perform(ctx, Operation{Verb: List}); err != nil {
		return cri.Version{}, err
	}
	return cri.Version{Name: Name, Version: version}, nil
}

// Status is ready, or what SetStatus said.
func (r *Runtime) Status(ctx context.Context) (cri.RuntimeStatus, error) {
	if err := r.perform(ctx, Operation{Verb: List}); err != nil {
		return cri.RuntimeStatus{}, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.condition, nil
}

// matches reports whether something satisfies the label part of a filter.
func matches(labels, want map[string]string) bool {
	for k, v := range want {
		if got, ok := labels[k]; !ok || got != v {
			return false
		}
	}
	return true
}

// newestFirst sorts by sequence, the latest first.
func newestFirst[T any](items []T, sequence func(T) uint64) {
	slices.SortFunc(items, func(a, b T) int { return cmp.Compare(sequence(b), sequence(a)) })
}

func copySandbox(s cri.SandboxStatus) cri.SandboxStatus {
	s.Labels, s.Annotations = maps.Clone(s.Labels), maps.Clone(s.Annotations)
	s.IPs = slices.Clone(s.IPs)
	return s
}

func copyContainer(c cri.ContainerStatus) cri.ContainerStatus {
	c.Labels, c.Annotations = maps.Clone(c.Labels), maps.Clone(c.Annotations)
	c.Mounts = slices.Clone(c.Mounts)
	if c.Resources != nil {
		resources := copyResources(*c.Resources)
		c.Resources = &resources
	}
	return c
}

func copyResources(r cri.Resources) cri.Resources {
	r.Hugepages, r.Unified = slices.Clone(r.Hugepages), maps.Clone(r.Unified)
	return r
}
