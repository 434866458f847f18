package leaderelection

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/controllers"
	"github.com/keelson-dev/keelson/events"
	"github.com/keelson-dev/keelson/internal/pause"
	"github.com/keelson-dev/keelson/lifecycle"
)

// Errors of an Elector; test for them with errors.Is.
var (
	// ErrLost means that the Lease could not be renewed in time: another process may lead by now.
	ErrLost = errors.New("leadership lost")
	// ErrOptions means that New was given inconsistent timings, or no identity.
	ErrOptions = errors.New("bad leader election options")
)

// jitterFactor is how much longer than the retry period a retry may be delayed.
const jitterFactor = 1.2

// Client is what an Elector needs of the server: to get, create and update one Lease.
type Client interface {
	client.Getter
	client.Creator
	client.Updater
}

// Options of an Elector. The zero value behaves as upstream, without jitter.
type Options struct {
	// LeaseDuration is how long others wait for a Lease that does not change; 0 means 15 s. The Lease stores it in
	// whole seconds.
	LeaseDuration time.Duration
	// RenewDeadline is how long the leader tries to renew the Lease before it steps down; 0 means 10 s.
	RenewDeadline time.Duration
	// RetryPeriod is the time between two tries; 0 means 2 s.
	RetryPeriod time.Duration
	// ReleaseOnCancel gives up the Lease once led has returned, so the next leader need not wait.
	ReleaseOnCancel bool
	// Jitter returns a number in [0, 1) by which tries to take the Lease are spread, up to 1.2 retry periods more. Nil
	// means no jitter.
	Jitter func() float64
	// NewLeader is called, in order, with each new leader. It must return quickly.
	NewLeader func(identity string)
	// Recorder records when this process starts and stops leading; nil discards.
	Recorder events.Recorder
	// Logger logs failures; nil discards.
	Logger *slog.Logger
}

// Elector runs something while it holds a Lease. Make one with New.
type Elector struct {
	name     types.NamespacedName
	identity string
	client   Client
	led      lifecycle.Runnable
	options  Options
	log      *slog.Logger
	started  atomic.Bool

	mu       sync.Mutex // guards the rest
	lease    *coordinationv1.Lease
	seen     time.Time // when it last changed
	reported string    // the last leader reported to NewLeader
}

var _ lifecycle.Runnable = (*Elector)(nil)

// New makes an Elector that runs led while it holds the named Lease as identity, which must be unique among all
// candidates. It starts nothing.
func New(lease types.NamespacedName, identity string, c Client, led lifecycle.Runnable, o Options) (*Elector, error) {
	setDefault(&o.LeaseDuration, 15*time.Second)
	setDefault(&o.RenewDeadline, 10*time.Second)
	setDefault(&o.RetryPeriod, 2*time.Second)
	switch {
	case identity == "":
		return nil, errorf("identity is empty")
	case o.LeaseDuration < time.Second || o.RenewDeadline < 0 || o.RetryPeriod < 0:
		return nil, errorf("durations must be positive, that of the lease at least a second")
	case o.LeaseDuration <= o.RenewDeadline:
		return nil, errorf("leaseDuration must be greater than renewDeadline")
	case o.RenewDeadline <= time.Duration(jitterFactor*float64(o.RetryPeriod)):
		return nil, errorf("renewDeadline must be greater than retryPeriod*JitterFactor")
	}
	log := o.Logger
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Elector{
		name: lease, identity: identity, client: c, led: led, options: o,
		log: log.With("lease", lease.String(), "identity", identity),
	}, nil
}

func setDefault(d *time.Duration, value time.Duration) {
	if *d == 0 {
		*d = value
	}
}

// Leader is the identity that last held the Lease as far as this process has seen, or "".
func (e *Elector) Leader() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return holder(e.lease)
}

// Run takes the Lease as soon as it is free and runs led until the context ends, the Lease is lost or led returns. It
// can be called once.
func (e *Elector) Run(ctx context.Context) error {
	if !e.started.CompareAndSwap(false, true) {
		return controllers.ErrStarted
	}
	if !e.acquire(ctx) {
		return nil
	}
	e.log.Info("became leader")
	e.record("became leader")
	err := e.lead(ctx)
	e.record("stopped leading")
	if e.options.ReleaseOnCancel {
		e.release(context.WithoutCancel(ctx))
	}
	return err
}

// acquire returns true once the Lease is held, false when the context has ended.
func (e *Elector) acquire(ctx context.Context) bool {
	for ctx.Err() == nil {
		got := e.try(ctx)
		e.report()
		if got {
			return true
		}
		period := e.options.RetryPeriod
		if e.options.Jitter != nil {
			period += time.Duration(e.options.Jitter() * jitterFactor * float64(period))
		}
		_ = pause.For(ctx, period)
	}
	return false
}

// lead runs led while the Lease is renewed.
func (e *Elector) lead(ctx context.Context) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var renewal sync.WaitGroup
	renewal.Go(func() {
		if !e.renew(ctx) && ctx.Err() == nil {
			e.log.Error("could not renew the lease in time")
			stop(ErrLost)
		}
	})
	err := e.led.Run(ctx)
	lost := errors.Is(context.Cause(ctx), ErrLost)
	stop(nil)
	renewal.Wait()
	switch {
	case lost && err != nil:
		return fmt.Errorf("%w: %w", ErrLost, err)
	case lost:
		return ErrLost
	}
	return err
}

// renew keeps the Lease; it returns false when renewing failed or the context has ended.
func (e *Elector) renew(ctx context.Context) bool {
	for {
		if !e.renewOnce(ctx) {
			return false
		}
		_ = pause.For(ctx, e.options.RetryPeriod)
	}
}

// renewOnce tries until the deadline.
func (e *Elector) renewOnce(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, e.options.RenewDeadline)
	defer cancel()
	for ctx.Err() == nil {
		got := e.try(ctx)
		e.report()
		if got {
			return true
		}
		_ = pause.For(ctx, e.options.RetryPeriod)
	}
	return false
}

// report calls NewLeader if the leader has changed.
func (e *Elector) report() {
	e.mu.Lock()
	leader := holder(e.lease)
	changed := leader != e.reported
	e.reported = leader
	e.mu.Unlock()
	if changed && e.options.NewLeader != nil {
		e.options.NewLeader(leader)
	}
}

func (e *Elector) record(what string) {
	if e.options.Recorder == nil {
		return
	}
	e.mu.Lock()
	lease := e.lease
	e.mu.Unlock()
	e.options.Recorder.Record(events.Event{
		Regarding: corev1.ObjectReference{
			APIVersion: coordinationv1.SchemeGroupVersion.String(), Kind: "Lease",
			Namespace: lease.Namespace, Name: lease.Name, UID: lease.UID, ResourceVersion: lease.ResourceVersion,
		},
		Type: corev1.EventTypeNormal, Reason: "LeaderElection", Message: e.identity + " " + what,
	})
}
