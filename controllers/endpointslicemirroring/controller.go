package endpointslicemirroring

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/controllers"
	"github.com/keelson-dev/keelson/controllers/internal/endpointslices"
	"github.com/keelson-dev/keelson/events"
	"github.com/keelson-dev/keelson/informer"
)

const (
	// managedBy is the value of the label endpointslice.kubernetes.io/managed-by.
	managedBy = "endpointslicemirroring-controller.k8s.io"
	// leaderElection is the annotation of Endpoints that are the lock of a leader election.
	leaderElection = "control-plane.alpha.kubernetes.io/leader"
)

// Sources is what the controller reads.
type Sources struct {
	Services       *informer.Informer[*corev1.Service]
	Endpoints      *informer.Informer[*corev1.Endpoints]
	EndpointSlices *informer.Informer[*discoveryv1.EndpointSlice]
}

// Client is what the controller needs of the server: to create, update and delete slices.
type Client interface {
	client.Creator
	client.Updater
	client.Deleter
}

// Options of a Controller. The zero value behaves as upstream.
type Options struct {
	// MaxEndpoints is the maximum number of addresses that are mirrored for each set of ports; 0 means 1000.
	MaxEndpoints int
	// BatchPeriod delays the reaction to others' changes of slices; 0 means no delay.
	BatchPeriod time.Duration
}

// Controller is the endpointslice-mirroring-controller. Make one with New.
type Controller struct {
	in       Sources
	recorder events.Recorder
	most     int
	batch    time.Duration
	slices   *endpointslices.Slices
}

var (
	_ controllers.Controller = (*Controller)(nil)
	_ controllers.Retrier    = (*Controller)(nil)
)

// New makes the controller. It adds an index to the informer of slices, which therefore must not be running yet.
func New(in Sources, c Client, r events.Recorder, o Options) *Controller {
	if o.MaxEndpoints <= 0 {
		o.MaxEndpoints = 1000
	}
	return &Controller{
		in: in, recorder: r, most: o.MaxEndpoints, batch: o.BatchPeriod,
		slices: endpointslices.New(in.EndpointSlices, c, managedBy),
	}
}

// Name is "endpointslice-mirroring-controller".
func (c *Controller) Name() string { return "endpointslice-mirroring-controller" }

// Retry waits one second after the first failure and gives up after fifteen in a row, until something changes.
func (c *Controller) Retry() controllers.Retry {
	return controllers.Retry{First: time.Second, Max: 100 * time.Second, Limit: 15}
}

// wanted reports whether Endpoints ask to be mirrored.
func wanted(e *corev1.Endpoints) bool {
	_, lock := e.Annotations[leaderElection]
	return e.Labels[discoveryv1.LabelSkipMirror] != "true" && !lock
}

// Watch implements controllers.Controller.
func (c *Controller) Watch(q controllers.Queue) []controllers.Synced {
	service := func(s *corev1.Service) {
		if s.Spec.Selector == nil {
			q.Add(controllers.KeyOf(s))
		}
	}
	c.in.Services.AddHandler(informer.Handler[*corev1.Service]{
		Added:   service,
		Deleted: service,
		Updated: func(old, s *corev1.Service) {
			if (old.Spec.Selector == nil) != (s.Spec.Selector == nil) {
				q.Add(controllers.KeyOf(s))
			}
		},
	})
	endpoints := func(e *corev1.Endpoints) {
		if wanted(e) {
			q.Add(controllers.KeyOf(e))
		}
	}
	c.in.Endpoints.AddHandler(informer.Handler[*corev1.Endpoints]{
		Added:   endpoints,
		Deleted: endpoints,
		Updated: func(old, e *corev1.Endpoints) {
			if wanted(old) || wanted(e) {
				q.Add(controllers.KeyOf(e))
			}
		},
	})
	c.slices.Watch(q, c.batch)
	return []controllers.Synced{c.in.Endpoints, c.in.EndpointSlices, c.in.Services}
}

// Reconcile implements controllers.Controller.
func (c *Controller) Reconcile(ctx context.Context, key controllers.Key) (controllers.Result, error) {
	endpoints, ok := c.in.Endpoints.Get(key.Namespace, key.Name)
	service, served := c.in.Services.Get(key.Namespace, key.Name)
	if !ok || !served || !wanted(endpoints) || service.Spec.Selector != nil {
		return controllers.Result{}, c.remove(ctx, key)
	}
	existing, current := c.slices.Of(key)
	if !current {
		return controllers.Result{RequeueAfter: time.Second}, nil
	}
	m := mirror{endpoints: endpoints, most: c.most}
	m.take()
	c.report(endpoints, &m)
	return controllers.Result{}, c.carryOut(ctx, endpoints, m.plan(existing))
}

// remove deletes the slices of Endpoints that are not mirrored any more.
func (c *Controller) remove(ctx context.Context, key controllers.Key) error {
	existing, _ := c.slices.Of(key)
	c.slices.Forget(key)
	failed, first := 0, error(nil)
	for _, slice := range existing {
		if err := c.slices.Delete(ctx, slice); err != nil {
			if failed++; first == nil {
				first = err
			}
		}
	}
	if failed == 0 {
		return nil
	}
	return fmt.Errorf("error(s) deleting %d/%d EndpointSlices for %s Endpoints, including: %w", failed, len(existing), key, first)
}

// report records what is not mirrored.
func (c *Controller) report(endpoints *corev1.Endpoints, m *mirror) {
	warn := func(reason, format string, args ...any) {
		c.recorder.Record(events.Event{
			Regarding: events.About(corev1.SchemeGroupVersion.WithKind("Endpoints"), endpoints),
			Type:      corev1.EventTypeWarning, Reason: reason, Message: fmt.Sprintf(format, args...),
		})
	}
	if m.invalid > 0 {
		warn("InvalidIPAddress", "Skipped %d invalid IP addresses when mirroring to EndpointSlices", m.invalid)
	}
	if m.skipped > m.invalid {
		warn("TooManyAddressesToMirror",
			"A max of %d addresses can be mirrored to EndpointSlices per Endpoints subset. %d addresses were skipped", c.most, m.skipped)
	}
}

// carryOut carries out a plan. Nothing is created for Endpoints that are being deleted.
func (c *Controller) carryOut(ctx context.Context, endpoints *corev1.Endpoints, p plan) error {
	failed := func(what string, err error) error {
		return fmt.Errorf("failed to %s EndpointSlice for Endpoints %s/%s: %w", what, endpoints.Namespace, endpoints.Name, err)
	}
	for _, slice := range p.create {
		if endpoints.DeletionTimestamp != nil {
			break
		}
		err := c.slices.Create(ctx, slice)
		if endpointslices.Ending(err) {
			return nil
		}
		if err != nil {
			return failed("create", err)
		}
	}
	for _, slice := range p.update {
		if err := c.slices.Update(ctx, slice); err != nil {
			return failed("update "+slice.Name, err)
		}
	}
	for _, slice := range p.delete {
		if err := c.slices.Delete(ctx, slice); err != nil {
			return failed("delete "+slice.Name, err)
		}
	}
	return nil
}
