package overlay

import (
	"context"
	"log/slog"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/lifecycle"
)

// Writer is the network of one host. Its methods are called one at a time.
type Writer interface {
	// Underlay reads the host's own network as it is now.
	Underlay(ctx context.Context) (Underlay, error)
	// Write makes the host's state what the table says, whatever it was: the device, its neighbours and all routes that an
	// earlier Write of any process has made. Other devices and routes stay as they are. After a failure part of it may be done.
	Write(ctx context.Context, t Table) error
}

// Options of an Overlay.
type Options struct {
	Settings Settings
	// Period is the shortest time between two writes; 0 means 100 ms.
	Period time.Duration
	// CheckPeriod is how often everything is written again, in case somebody else has changed it, and how long to wait after a
	// failure; 0 means 10 s.
	CheckPeriod time.Duration
	// Written, unless nil, is called after each write with what is in effect.
	Written func(Table)
	Logger  *slog.Logger
}

// Overlay keeps a host's routes in step with the nodes. Make one with New.
type Overlay struct {
	nodes   *informer.Informer[*corev1.Node]
	self    string
	writer  Writer
	options Options
	wake    chan struct{} // has an element if there is something to do
	told    []Refusal
}

var _ lifecycle.Runnable = (*Overlay)(nil)

// New makes the overlay of the host of the named node, and adds a handler to the informer.
func New(nodes *informer.Informer[*corev1.Node], self string, w Writer, o Options) *Overlay {
	if o.Period <= 0 {
		o.Period = 100 * time.Millisecond
	}
	if o.CheckPeriod <= 0 {
		o.CheckPeriod = 10 * time.Second
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	v := &Overlay{nodes: nodes, self: self, writer: w, options: o, wake: make(chan struct{}, 1)}
	nodes.AddHandler(informer.Handler[*corev1.Node]{
		Added: func(*corev1.Node) { v.poke() },
		Updated: func(old, node *corev1.Node) {
			if !slices.Equal(old.Spec.PodCIDRs, node.Spec.PodCIDRs) || old.Spec.PodCIDR != node.Spec.PodCIDR ||
				!slices.Equal(old.Status.Addresses, node.Status.Addresses) || old.UID != node.UID {
				v.poke()
			}
		},
		Deleted: func(*corev1.Node) { v.poke() },
	})
	return v
}

func (v *Overlay) poke() {
	select {
	case v.wake <- struct{}{}:
	default:
	}
}

// Run follows the nodes until the context ends, and then returns nil. What was written stays. The informer is run by others.
func (v *Overlay) Run(ctx context.Context) error {
	if err := v.nodes.WaitSynced(ctx); err != nil {
		if lifecycle.Ends(ctx) {
			return nil
		}
		return err
	}
	check := time.NewTicker(v.options.CheckPeriod)
	defer check.Stop()
	for {
		if err := v.write(ctx); err != nil && ctx.Err() == nil {
			v.options.Logger.Warn("the routes to other hosts could not be written", "error", err)
		}
		select { // changes are collected meanwhile
		case <-time.After(v.options.Period):
		case <-ctx.Done():
			return nil
		}
		select {
		case <-v.wake:
		case <-check.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// write decides and writes. While the node has no networks, what there is stays.
func (v *Overlay) write(ctx context.Context) error {
	underlay, err := v.writer.Underlay(ctx)
	if err != nil {
		return err
	}
	table, refusals := Decide(v.self, v.nodes.List(""), underlay, v.options.Settings)
	for _, r := range refusals {
		if !slices.Contains(v.told, r) {
			v.options.Logger.Warn("a node is not believed", "node", r.Node, "says", r.What, "because", r.Reason)
		}
	}
	v.told = refusals
	if len(table.Own) == 0 {
		return nil
	}
	if err := v.writer.Write(ctx, table); err != nil {
		return err
	}
	if v.options.Written != nil {
		v.options.Written(table)
	}
	return nil
}
