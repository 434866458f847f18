package endpointslice

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/controllers"
	"github.com/keelson-dev/keelson/controllers/internal/backends"
	"github.com/keelson-dev/keelson/controllers/internal/endpointslices"
	"github.com/keelson-dev/keelson/events"
	"github.com/keelson-dev/keelson/informer"
)

// managedBy is the value of the label endpointslice.kubernetes.io/managed-by.
const managedBy = "endpointslice-controller.k8s.io"

// sliceDelay is how long after a foreign change of a slice its service is reconciled.
const sliceDelay = time.Second

// Sources is what the controller reads.
type Sources struct {
	Services       *informer.Informer[*corev1.Service]
	Pods           *informer.Informer[*corev1.Pod]
	Nodes          *informer.Informer[*corev1.Node]
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
	// MaxEndpoints is the maximum number of endpoints in a slice; 0 means 100.
	MaxEndpoints int
	// BatchPeriod delays writing the slices after a pod has changed, which combines several changes into one write; 0
	// means no delay.
	BatchPeriod time.Duration
}

// Controller is the endpointslice-controller. Make one with New.
type Controller struct {
	in       Sources
	recorder events.Recorder
	most     int
	batch    time.Duration
	triggers *backends.Triggers
	slices   *endpointslices.Slices
}

var (
	_ controllers.Controller = (*Controller)(nil)
	_ controllers.Retrier    = (*Controller)(nil)
)

// New makes the controller. It adds an index to the informer of slices, which therefore must not be running yet.
func New(in Sources, c Client, r events.Recorder, o Options) *Controller {
	if o.MaxEndpoints <= 0 {
		o.MaxEndpoints = 100
	}
	return &Controller{
		in: in, recorder: r, most: o.MaxEndpoints, batch: o.BatchPeriod,
		triggers: backends.NewTriggers(), slices: endpointslices.New(in.EndpointSlices, c, managedBy),
	}
}

// Name is "endpointslice-controller".
func (c *Controller) Name() string { return "endpointslice-controller" }

// Retry waits one second after the first failure and gives up after fifteen in a row, until something changes.
func (c *Controller) Retry() controllers.Retry {
	return controllers.Retry{First: time.Second, Max: 1000 * time.Second, Limit: 15}
}

// Watch implements controllers.Controller.
func (c *Controller) Watch(q controllers.Queue) []controllers.Synced {
	c.in.Services.AddHandler(informer.Handler[*corev1.Service]{
		Added:   func(s *corev1.Service) { q.Add(controllers.KeyOf(s)) },
		Updated: func(_, s *corev1.Service) { q.Add(controllers.KeyOf(s)) },
		Deleted: func(s *corev1.Service) { q.Add(controllers.KeyOf(s)) },
	})
	c.in.Pods.AddHandler(backends.Watch(c.in.Services, func(key controllers.Key) { q.AddAfter(key, c.batch) }))
	c.slices.Watch(q, max(sliceDelay, c.batch))
	return []controllers.Synced{c.in.Pods, c.in.Services, c.in.EndpointSlices, c.in.Nodes}
}

// Reconcile implements controllers.Controller.
func (c *Controller) Reconcile(ctx context.Context, key controllers.Key) (controllers.Result, error) {
	service, ok := c.in.Services.Get(key.Namespace, key.Name)
	if !ok {
		c.triggers.Forget(key)
		c.slices.Forget(key)
		return controllers.Result{}, nil // the garbage collector deletes the slices
	}
	existing, current := c.slices.Of(key)
	if !backends.Selected(service) {
		return controllers.Result{}, nil
	}
	if !current {
		return controllers.Result{RequeueAfter: time.Second}, nil
	}
	pods := backends.Of(service, c.in.Pods)
	trigger := c.triggers.Time(service, pods) // whether or not this leads to a write
	if err := c.reconcile(ctx, service, pods, existing, trigger); err != nil {
		c.recorder.Record(events.Event{
			Regarding: events.About(corev1.SchemeGroupVersion.WithKind("Service"), service),
			Type:      corev1.EventTypeWarning, Reason: "FailedToUpdateEndpointSlices",
			Message: fmt.Sprintf("Error updating Endpoint Slices for Service %s/%s: %v", service.Namespace, service.Name, err),
		})
		return controllers.Result{}, err
	}
	return controllers.Result{}, nil
}

// reconcile plans and writes, one IP family after another.
func (c *Controller) reconcile(ctx context.Context, service *corev1.Service, pods []*corev1.Pod, existing []*discoveryv1.EndpointSlice, trigger time.Time) error {
	var errs []error
	types := addressTypes(service)
	for _, addressType := range types {
		var same []*discoveryv1.EndpointSlice
		for _, slice := range existing {
			if slice.AddressType == addressType {
				same = append(same, slice)
			}
		}
		p := planner{service: service, addressType: addressType, most: c.most}
		missing := p.take(pods, func(name string) (*corev1.Node, bool) { return c.in.Nodes.Get("", name) })
		errs = append(errs, missing...)
		if err := c.carryOut(ctx, service, p.plan(same), trigger); err != nil {
			errs = append(errs, err)
		}
	}
	for _, slice := range existing {
		if slices.Contains(types, slice.AddressType) {
			continue
		}
		if err := c.slices.Delete(ctx, slice); err != nil {
			errs = append(errs, fmt.Errorf("error deleting %s EndpointSlice for Service %s/%s: %w", slice.Name, service.Namespace, service.Name, err))
		}
	}
	return utilerrors.NewAggregate(errs)
}

// carryOut carries out a plan. Nothing is created for a service that is being deleted: the garbage collector is
// deleting its slices at that time.
func (c *Controller) carryOut(ctx context.Context, service *corev1.Service, p plan, trigger time.Time) error {
	failed := func(what string, err error) error {
		return fmt.Errorf("failed to %s EndpointSlice for Service %s/%s: %w", what, service.Namespace, service.Name, err)
	}
	for _, slice := range p.create {
		if service.DeletionTimestamp != nil {
			break
		}
		slice.Annotations = backends.Annotate(slice.Annotations, trigger)
		err := c.slices.Create(ctx, slice)
		if endpointslices.Ending(err) {
			return nil
		}
		if err != nil {
			return failed("create", err)
		}
	}
	for _, slice := range p.update {
		slice.Annotations = backends.Annotate(slice.Annotations, trigger)
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

// addressTypes returns those of the service's IP families. A service without any has that of its cluster IP, or IPv4.
func addressTypes(service *corev1.Service) []discoveryv1.AddressType {
	var types []discoveryv1.AddressType
	for _, family := range service.Spec.IPFamilies {
		if !slices.Contains(types, discoveryv1.AddressType(family)) {
			types = append(types, discoveryv1.AddressType(family))
		}
	}
	if len(types) == 0 {
		types = append(types, cmp.Or(familyOf(service.Spec.ClusterIP), discoveryv1.AddressTypeIPv4))
	}
	return types
}
