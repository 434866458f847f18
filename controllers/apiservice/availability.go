package apiservice

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/controllers"
	"github.com/keelson-dev/keelson/informer"
)

// recheck is how often servers are asked though nothing has changed.
const recheck = 30 * time.Second

// Checker asks servers whether they serve.
type Checker interface {
	// Check returns nil if the server of an APIService answers as it should. The error's text is shown in the status. It
	// returns within seconds, and must not change the object.
	Check(ctx context.Context, s *apiregistrationv1.APIService) error
}

// Sources are what Availability reads.
type Sources struct {
	APIServices    *informer.Informer[*apiregistrationv1.APIService]
	Services       *informer.Informer[*corev1.Service]
	EndpointSlices *informer.Informer[*discoveryv1.EndpointSlice]
}

// Availability is the controller of the condition Available. Make one with NewAvailability. Its keys are the names of
// APIServices.
type Availability struct {
	in      Sources
	client  client.Updater
	checker Checker
}

var _ controllers.Controller = (*Availability)(nil)

// NewAvailability makes the controller.
func NewAvailability(in Sources, c client.Updater, checker Checker) *Availability {
	return &Availability{in: in, client: c, checker: checker}
}

// Name is upstream's name of the queue of APIServices with a service.
func (*Availability) Name() string { return "RemoteAvailabilityController" }

// Retry retries soon, since the network is nothing that could be watched.
func (*Availability) Retry() controllers.Retry {
	return controllers.Retry{First: 5 * time.Millisecond, Max: recheck}
}

// Watch enqueues APIServices that change, or whose service or endpoints change.
func (c *Availability) Watch(q controllers.Queue) []controllers.Synced {
	c.in.APIServices.AddHandler(informer.Handler[*apiregistrationv1.APIService]{
		Added:   func(s *apiregistrationv1.APIService) { q.Add(controllers.KeyOf(s)) },
		Updated: func(_, s *apiregistrationv1.APIService) { q.Add(controllers.KeyOf(s)) },
	})
	behind := func(namespace, name string) {
		for _, s := range c.in.APIServices.List("") {
			if to := s.Spec.Service; to != nil && to.Namespace == namespace && to.Name == name {
				q.Add(controllers.KeyOf(s))
			}
		}
	}
	service := func(s *corev1.Service) { behind(s.Namespace, s.Name) }
	c.in.Services.AddHandler(informer.Handler[*corev1.Service]{
		Added: service, Updated: func(_, s *corev1.Service) { service(s) }, Deleted: service,
	})
	slice := func(e *discoveryv1.EndpointSlice) { behind(e.Namespace, e.Labels[discoveryv1.LabelServiceName]) }
	c.in.EndpointSlices.AddHandler(informer.Handler[*discoveryv1.EndpointSlice]{
		Added: slice, Updated: func(_, e *discoveryv1.EndpointSlice) { slice(e) }, Deleted: slice,
	})
	return []controllers.Synced{c.in.APIServices, c.in.Services, c.in.EndpointSlices}
}

// Reconcile checks one APIService.
func (c *Availability) Reconcile(ctx context.Context, key controllers.Key) (controllers.Result, error) {
	s, ok := c.in.APIServices.Get("", key.Name)
	if !ok {
		return controllers.Result{}, nil
	}
	if s.Spec.Service == nil {
		return controllers.Result{}, c.write(ctx, s, condition{true, "Local", "Local APIServices are always available"})
	}
	found := c.find(s)
	var failed error
	if found.ok {
		found = condition{true, "Passed", "all checks passed"}
		if failed = c.checker.Check(ctx, s); failed != nil {
			if ctx.Err() != nil {
				return controllers.Result{}, ctx.Err()
			}
			found = condition{false, "FailedDiscoveryCheck", failed.Error()}
		}
	}
	if err := c.write(ctx, s, found); err != nil {
		return controllers.Result{}, err
	}
	return controllers.Result{RequeueAfter: recheck}, failed
}

// condition is what Available says.
type condition struct {
	ok              bool
	reason, message string
}

// find looks for the service and an endpoint. Only those of type ClusterIP tell.
func (c *Availability) find(s *apiregistrationv1.APIService) condition {
	to := s.Spec.Service
	service, ok := c.in.Services.Get(to.Namespace, to.Name)
	if !ok {
		return condition{false, "ServiceNotFound", fmt.Sprintf("service/%s in %q is not present", to.Name, to.Namespace)}
	}
	if service.Spec.Type != corev1.ServiceTypeClusterIP {
		return condition{ok: true}
	}
	i := slices.IndexFunc(service.Spec.Ports, func(p corev1.ServicePort) bool { return p.Port == *to.Port })
	if i < 0 {
		return condition{false, "ServicePortError", fmt.Sprintf("service/%s in %q is not listening on port %d", to.Name, to.Namespace, *to.Port)}
	}
	port := service.Spec.Ports[i].Name
	of := slices.DeleteFunc(c.in.EndpointSlices.List(to.Namespace), func(e *discoveryv1.EndpointSlice) bool {
		return e.Labels[discoveryv1.LabelServiceName] != to.Name
	})
	switch {
	case len(of) == 0:
		return condition{false, "EndpointsNotFound", fmt.Sprintf("cannot find endpointslices for service/%s in %q", to.Name, to.Namespace)}
	case !slices.ContainsFunc(of, func(e *discoveryv1.EndpointSlice) bool { return serves(e, port) }):
		return condition{false, "MissingEndpoints", fmt.Sprintf("endpointslices for service/%s in %q have no addresses with port name %q", to.Name, to.Namespace, port)}
	}
	return condition{ok: true}
}

// serves reports whether a slice has a ready endpoint and the port.
func serves(e *discoveryv1.EndpointSlice, port string) bool {
	return slices.ContainsFunc(e.Endpoints, func(e discoveryv1.Endpoint) bool {
		return e.Conditions.Ready == nil || *e.Conditions.Ready
	}) && slices.ContainsFunc(e.Ports, func(p discoveryv1.EndpointPort) bool {
		return p.Name != nil && *p.Name == port && p.Port != nil
	})
}

// write writes the condition, unless it is there.
func (c *Availability) write(ctx context.Context, s *apiregistrationv1.APIService, is condition) error {
	next := s.DeepCopy()
	status := apiregistrationv1.ConditionFalse
	if is.ok {
		status = apiregistrationv1.ConditionTrue
	}
	i := slices.IndexFunc(next.Status.Conditions, func(c apiregistrationv1.APIServiceCondition) bool {
		return c.Type == apiregistrationv1.Available
	})
	if i < 0 {
		i = len(next.Status.Conditions)
		next.Status.Conditions = append(next.Status.Conditions, apiregistrationv1.APIServiceCondition{Type: apiregistrationv1.Available})
	}
	to := &next.Status.Conditions[i]
	if to.Status != status {
		to.Status, to.LastTransitionTime = status, metav1.Now()
	}
	to.Reason, to.Message = is.reason, is.message
	if equality.Semantic.DeepEqual(s.Status, next.Status) {
		return nil
	}
	_, err := c.client.Update(ctx, client.Target{Resource: resource(), Name: s.Name, Subresource: "status"}, next, metav1.UpdateOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
