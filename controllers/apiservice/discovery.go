package apiservice

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"github.com/keelson-dev/keelson/controllers"
	"github.com/keelson-dev/keelson/informer"
)

// refresh is how often what servers serve is read again though nothing has changed.
const refresh = time.Minute

func resource() schema.GroupVersionResource {
	return apiregistrationv1.SchemeGroupVersion.WithResource("apiservices")
}

// Refresher reads what servers serve.
type Refresher interface {
	// Refresh reads again what the server of the APIService of that name serves. It forgets what it knows of one that does
	// not exist, or has no service.
	Refresh(ctx context.Context, name string) error
}

// Discovery has what the servers of APIServices serve read again. Make one with NewDiscovery. Its keys are the names of
// APIServices.
type Discovery struct {
	in        *informer.Informer[*apiregistrationv1.APIService]
	refresher Refresher
}

var _ controllers.Controller = (*Discovery)(nil)

// NewDiscovery makes the controller.
func NewDiscovery(in *informer.Informer[*apiregistrationv1.APIService], r Refresher) *Discovery {
	return &Discovery{in: in, refresher: r}
}

// Name is upstream's name of the queue, "discovery-manager".
func (*Discovery) Name() string { return "discovery-manager" }

// Retry retries as upstream's does.
func (*Discovery) Retry() controllers.Retry {
	return controllers.Retry{First: 500 * time.Millisecond, Max: refresh}
}

// Watch enqueues APIServices.
func (c *Discovery) Watch(q controllers.Queue) []controllers.Synced {
	enqueue := func(s *apiregistrationv1.APIService) { q.Add(controllers.KeyOf(s)) }
	c.in.AddHandler(informer.Handler[*apiregistrationv1.APIService]{
		Added: enqueue, Updated: func(_, s *apiregistrationv1.APIService) { enqueue(s) }, Deleted: enqueue,
	})
	return []controllers.Synced{c.in}
}

// Reconcile has one APIService's server asked.
func (c *Discovery) Reconcile(ctx context.Context, key controllers.Key) (controllers.Result, error) {
	if err := c.refresher.Refresh(ctx, key.Name); err != nil {
		return controllers.Result{}, err
	}
	if s, ok := c.in.Get("", key.Name); !ok || s.Spec.Service == nil {
		return controllers.Result{}, nil
	}
	return controllers.Result{RequeueAfter: refresh}, nil
}
