package loadbalancer

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/controllers"
	"github.com/keelson-dev/keelson/events"
	"github.com/keelson-dev/keelson/informer"
)

// Class is the class of services that the controller serves unless Options say otherwise.
const Class = "keelson.dev/addresses"

// Options of a Controller.
type Options struct {
	// Ranges are the networks of the addresses; there is at least one.
	Ranges []netip.Prefix
	// Class is the loadBalancerClass of the services to serve, "" stands for Class.
	Class string
	// Default also serves services without a class.
	Default bool
}

// Controller gives services addresses. Make one with New.
type Controller struct {
	services *informer.Informer[*corev1.Service]
	client   client.Patcher
	recorder events.Recorder
	options  Options

	mu    sync.Mutex // guards the rest
	queue controllers.Queue
	// given are addresses by service that the cache may not show yet.
	given map[controllers.Key][]netip.Addr
	// waiting are services for which there was no address.
	waiting map[controllers.Key]bool
}

var _ controllers.Controller = (*Controller)(nil)

// New makes the controller. The client acts as the service account service-controller, and patches the status of services.
func New(services *informer.Informer[*corev1.Service], c client.Patcher, r events.Recorder, o Options) (*Controller, error) {
	if len(o.Ranges) == 0 || slices.ContainsFunc(o.Ranges, func(r netip.Prefix) bool { return !r.IsValid() }) {
		return nil, errors.New("load balancers need valid ranges of addresses")
	}
	o.Class, o.Ranges = cmp.Or(o.Class, Class), slices.Clone(o.Ranges)
	return &Controller{
		services: services, client: c, recorder: r, options: o,
		given: map[controllers.Key][]netip.Addr{}, waiting: map[controllers.Key]bool{},
	}, nil
}

// Name is "service-lb-controller".
func (*Controller) Name() string { return "service-lb-controller" }

// Watch enqueues services that change, and those that wait when another one is gone or no longer has its addresses.
func (c *Controller) Watch(q controllers.Queue) []controllers.Synced {
	c.queue = q
	add := func(s *corev1.Service) { q.Add(controllers.KeyOf(s)) }
	c.services.AddHandler(informer.Handler[*corev1.Service]{
		Added:   add,
		Updated: func(_, s *corev1.Service) { add(s) },
		Deleted: func(s *corev1.Service) {
			c.forget(controllers.KeyOf(s))
			c.wake()
		},
	})
	return []controllers.Synced{c.services}
}

// mine reports whether a service is to have addresses of this controller.
func (c *Controller) mine(s *corev1.Service) bool {
	if s.Spec.Type != corev1.ServiceTypeLoadBalancer {
		return false
	}
	if s.Spec.LoadBalancerClass == nil {
		return c.options.Default
	}
	return *s.Spec.LoadBalancerClass == c.options.Class
}

// Reconcile gives a service its addresses, or takes them from one that is of another type.
func (c *Controller) Reconcile(ctx context.Context, key controllers.Key) (controllers.Result, error) {
	service, ok := c.services.Get(key.Namespace, key.Name)
	switch {
	case !ok, service.DeletionTimestamp != nil:
		return controllers.Result{}, nil
	case !c.mine(service):
		return controllers.Result{}, c.take(ctx, key, service)
	}
	want, unavailable := c.assign(key, service)
	if unavailable != nil {
		c.report(service, corev1.EventTypeWarning, "SyncLoadBalancerFailed", "Error syncing load balancer: "+unavailable.Error())
		return controllers.Result{}, nil //nolint:nilerr // until an address becomes free, or the service changes
	}
	if slices.Equal(Addresses(service), want) {
		return controllers.Result{}, nil
	}
	c.report(service, corev1.EventTypeNormal, "EnsuringLoadBalancer", "Ensuring load balancer")
	if err := c.write(ctx, key, want); err != nil {
		c.report(service, corev1.EventTypeWarning, "SyncLoadBalancerFailed", "Error syncing load balancer: "+err.Error())
		return controllers.Result{}, err
	}
	c.report(service, corev1.EventTypeNormal, "EnsuredLoadBalancer", "Ensured load balancer")
	if len(service.Status.LoadBalancer.Ingress) > 0 {
		c.wake() // it had others before
	}
	return controllers.Result{}, nil
}

// assign chooses the addresses of a service and remembers them.
func (c *Controller) assign(key controllers.Key, service *corev1.Service) ([]netip.Addr, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	others := map[netip.Addr]bool{}
	for k, all := range c.given {
		for _, ip := range all {
			others[ip] = others[ip] || k != key
		}
	}
	has := Addresses(service)
	for _, s := range c.services.List("") {
		if controllers.KeyOf(s) == key || !c.mine(s) {
			continue
		}
		for _, ip := range Addresses(s) {
			others[ip] = others[ip] || older(s, service) || !slices.Contains(has, ip)
		}
	}
	want, err := Assign(service, c.options.Ranges, func(ip netip.Addr) bool { return others[ip] })
	if err != nil {
		c.waiting[key] = true
		return nil, err
	}
	delete(c.waiting, key)
	c.given[key] = want
	return want, nil
}

// older decides which of two services keeps an address.
func older(a, b *corev1.Service) bool {
	if c := a.CreationTimestamp.Compare(b.CreationTimestamp.Time); c != 0 {
		return c < 0
	}
	return controllers.KeyOf(a).String() < controllers.KeyOf(b).String()
}

// take takes the addresses of the ranges from a service of another type.
func (c *Controller) take(ctx context.Context, key controllers.Key, service *corev1.Service) error {
	had := c.forget(key)
	defer func() {
		if had {
			c.wake()
		}
	}()
	ours := func(ip netip.Addr) bool { return usable(ip, c.options.Ranges) }
	if service.Spec.Type == corev1.ServiceTypeLoadBalancer || !slices.ContainsFunc(Addresses(service), ours) {
		return nil
	}
	c.report(service, corev1.EventTypeNormal, "DeletingLoadBalancer", "Deleting load balancer")
	if err := c.write(ctx, key, nil); err != nil {
		return err
	}
	c.report(service, corev1.EventTypeNormal, "DeletedLoadBalancer", "Deleted load balancer")
	return nil
}

// forget forgets what a service was given, and reports whether that was anything.
func (c *Controller) forget(key controllers.Key) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, had := c.given[key]
	delete(c.given, key)
	delete(c.waiting, key)
	return had
}

// wake enqueues the services that wait.
func (c *Controller) wake() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for key := range c.waiting {
		c.queue.Add(key)
	}
}

// write sets the addresses in a service's status.
func (c *Controller) write(ctx context.Context, key controllers.Key, addresses []netip.Addr) error {
	ingress := []corev1.LoadBalancerIngress{}
	for _, ip := range addresses {
		ingress = append(ingress, corev1.LoadBalancerIngress{IP: ip.String(), IPMode: new(corev1.LoadBalancerIPModeVIP)})
	}
	data, err := json.Marshal(map[string]any{"status": map[string]any{"loadBalancer": map[string]any{"ingress": ingress}}})
	if err != nil {
		return err
	}
	at := client.Target{Resource: corev1.SchemeGroupVersion.WithResource("services"), Namespace: key.Namespace, Name: key.Name, Subresource: "status"}
	_, err = c.client.Patch(ctx, at, client.Patch{Type: types.MergePatchType, Data: data}, metav1.PatchOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("failed to update load balancer status: %w", err)
	}
	return nil
}

func (c *Controller) report(s *corev1.Service, kind, reason, message string) {
	c.recorder.Record(events.Event{
		Regarding: events.About(corev1.SchemeGroupVersion.WithKind("Service"), s), Type: kind, Reason: reason, Message: message,
	})
}
