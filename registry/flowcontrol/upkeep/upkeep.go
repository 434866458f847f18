package upkeep

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"

	apf "github.com/keelson-dev/keelson/flowcontrol"
	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/registry/flowcontrol"
)

// Options are the options of an Upkeep; the zero value is valid.
type Options struct {
	// Interval is the time between rounds that restore the default objects; 0 is a minute.
	Interval time.Duration
	Logger   *slog.Logger
}

const (
	firstRetry = 200 * time.Millisecond
	// Another server that writes other conditions is not fought: a schema gets at most this many updates in a minute,
	// and waits for some time after that.
	mostUpdates, truce = 6, 45 * time.Second
)

// Upkeep keeps the objects. Make one with New.
type Upkeep struct {
	schemas *kind[*flowcontrolv1.FlowSchema]
	levels  *kind[*flowcontrolv1.PriorityLevelConfiguration]
	options Options
	log     *slog.Logger
	wake    chan struct{}
	written map[string][]time.Time // when the conditions of a schema were written in the last minute
}

// New returns an Upkeep of a registry that has the kinds of package flowcontrol, or an error.
func New(r *registry.Registry, o Options) (*Upkeep, error) {
	if o.Interval <= 0 {
		o.Interval = time.Minute
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	schemas, err := kindOf(r, "flowschemas", flowcontrol.ReviseFlowSchema)
	if err != nil {
		return nil, err
	}
	levels, err := kindOf(r, "prioritylevelconfigurations", flowcontrol.RevisePriorityLevel)
	if err != nil {
		return nil, err
	}
	return &Upkeep{
		schemas: schemas, levels: levels, options: o, log: o.Logger, wake: make(chan struct{}, 1), written: map[string][]time.Time{},
	}, nil
}

// Wake makes Run look at the conditions of all FlowSchemas: after a change of one of them, or of a priority level. It
// does not block.
func (u *Upkeep) Wake() {
	select {
	case u.wake <- struct{}{}:
	default:
	}
}

// Once creates the default objects that are missing, restores those that were changed and removes those that another
// version left. It must not be called while Run runs. The registry must have been read.
func (u *Upkeep) Once(ctx context.Context) error {
	mandatory, suggested := apf.DefaultLevels()
	required, proposed := apf.DefaultSchemas()
	for _, step := range []func() error{
		func() error { return u.levels.ensure(ctx, suggested, false) },
		func() error { return u.schemas.ensure(ctx, proposed, false) },
		func() error { return u.levels.ensure(ctx, mandatory, true) },
		func() error { return u.schemas.ensure(ctx, required, true) },
		func() error { return u.schemas.clean(ctx, required, proposed) },
		func() error { return u.levels.clean(ctx, mandatory, suggested) },
	} {
		if err := step(); err != nil {
			return fmt.Errorf("default flow control: %w", err)
		}
	}
	return nil
}

// Run keeps the objects until the context ends, and then returns nil. It is called once.
func (u *Upkeep) Run(ctx context.Context) error {
	tick := time.NewTicker(u.options.Interval)
	defer tick.Stop()
	again := time.NewTimer(0)
	defer again.Stop()
	var retry time.Duration
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			if err := u.Once(ctx); err != nil && ctx.Err() == nil {
				u.log.Warn("cannot keep the default flow schemas and priority levels, will retry", "error", err)
			}
			continue
		case <-u.wake:
		case <-again.C:
		}
		wait, err := u.judge(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			u.log.Warn("cannot set the conditions of flow schemas, will retry", "error", err)
			retry = min(max(2*retry, firstRetry), truce)
			again.Reset(retry)
		default:
			if retry = 0; wait > 0 {
				again.Reset(wait)
			}
		}
	}
}

// judge sets the conditions of all schemas. It returns how long to wait before the next attempt, or 0.
func (u *Upkeep) judge(ctx context.Context) (wait time.Duration, err error) {
	var errs []error
	for _, s := range u.schemas.live.List("") {
		_, found := u.levels.live.Get("", s.Spec.PriorityLevelConfiguration.Name)
		if !flowcontrol.SetDangling(s.DeepCopy(), !found) {
			continue
		}
		if u.often(s.Name) {
			wait = truce
			continue
		}
		_, _, err := u.schemas.Update(ctx, "", s.Name, func(_ context.Context, current registry.Object) (registry.Object, error) {
			s := current.DeepCopyObject().(*flowcontrolv1.FlowSchema)
			_, found := u.levels.live.Get("", s.Spec.PriorityLevelConfiguration.Name)
			if flowcontrol.SetDangling(s, !found) {
				own(&s.ObjectMeta)
			}
			return s, nil
		}, registry.UpdateOptions{View: "status"})
		if err != nil && !errors.Is(err, registry.ErrNotFound) {
			errs = append(errs, fmt.Errorf("flow schema %s: %w", s.Name, err))
		}
	}
	return wait, errors.Join(errs...)
}

// often reports whether a schema was updated so often that somebody else must change its conditions, too. If not, it
// counts one more update.
func (u *Upkeep) often(name string) bool {
	now := time.Now()
	var recent []time.Time
	for _, t := range u.written[name] {
		if now.Sub(t) <= time.Minute {
			recent = append(recent, t)
		}
	}
	u.written[name] = recent
	if len(recent) >= mostUpdates {
		return true
	}
	u.written[name] = append(recent, now)
	return false
}
