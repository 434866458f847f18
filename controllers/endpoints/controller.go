package endpoints

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/controllers"
	"github.com/keelson-dev/keelson/controllers/expectations"
	"github.com/keelson-dev/keelson/controllers/internal/backends"
	"github.com/keelson-dev/keelson/controllers/ownership"
	"github.com/keelson-dev/keelson/events"
	"github.com/keelson-dev/keelson/informer"
)

// leaderAnnotation marks Endpoints that old leader elections used as a lock and that therefore have no service.
const leaderAnnotation = "control-plane.alpha.kubernetes.io/leader"

// Sources is what the controller reads.
type Sources struct {
	Services  *informer.Informer[*corev1.Service]
	Pods      *informer.Informer[*corev1.Pod]
	Endpoints *informer.Informer[*corev1.Endpoints]
}

// Client is what the controller needs of the server: to create, update and delete Endpoints.
type Client interface {
	client.Creator
	client.Updater
	client.Deleter
}

// Options of a Controller. The zero value behaves as upstream.
type Options struct {
	// BatchPeriod delays writing the Endpoints after a pod has changed, which combines several changes into one write;
	// 0 means no delay.
	BatchPeriod time.Duration
}

// Controller is the endpoints-controller. Make one with New.
type Controller struct {
	in       Sources
	client   Client
	recorder events.Recorder
	batch    time.Duration
	triggers *backends.Triggers
	// What the cache does not show yet: created Endpoints and the last version written, and the services that wait for
	// it.
	unseen  *expectations.Dependents
	written *expectations.Versions
	waiting *backends.Waiting
}

var (
	_ controllers.Controller = (*Controller)(nil)
	_ controllers.Retrier    = (*Controller)(nil)
)

// New makes the controller.
func New(in Sources, c Client, r events.Recorder, o Options) *Controller {
	return &Controller{
		in: in, client: c, recorder: r, batch: o.BatchPeriod,
		triggers: backends.NewTriggers(), unseen: expectations.NewDependents(), written: expectations.NewVersions(), waiting: backends.NewWaiting(),
	}
}

// Name is "endpoints-controller".
func (c *Controller) Name() string { return "endpoints-controller" }

// Retry gives up after fifteen failures in a row, until something changes.
func (c *Controller) Retry() controllers.Retry { return controllers.Retry{Limit: 15} }

func kind() ownership.Kind {
	return ownership.Kind{GroupVersionKind: corev1.SchemeGroupVersion.WithKind("Endpoints"), Resource: "endpoints"}
}

// Watch implements controllers.Controller.
func (c *Controller) Watch(q controllers.Queue) []controllers.Synced {
	c.in.Services.AddHandler(informer.Handler[*corev1.Service]{
		Added:   func(s *corev1.Service) { q.Add(controllers.KeyOf(s)) },
		Updated: func(_, s *corev1.Service) { q.Add(controllers.KeyOf(s)) },
		Deleted: func(s *corev1.Service) { q.Add(controllers.KeyOf(s)) },
	})
	c.in.Pods.AddHandler(backends.Watch(c.in.Services, func(key controllers.Key) { q.AddAfter(key, c.batch) }))
	seen := func(e *corev1.Endpoints) {
		if c.waiting.Take(controllers.KeyOf(e)) {
			q.Add(controllers.KeyOf(e))
		}
	}
	c.in.Endpoints.AddHandler(informer.Handler[*corev1.Endpoints]{
		Added: func(e *corev1.Endpoints) {
			c.unseen.Created(controllers.KeyOf(e))
			seen(e)
		},
		Updated: func(_, e *corev1.Endpoints) { seen(e) },
		Deleted: func(e *corev1.Endpoints) { q.Add(controllers.KeyOf(e)) },
	})
	return []controllers.Synced{c.in.Pods, c.in.Services, leftovers{c.in.Endpoints, q}}
}

// leftovers enqueues the Endpoints that are there at the start. They may belong to services that were deleted while no
// controller was running.
type leftovers struct {
	endpoints *informer.Informer[*corev1.Endpoints]
	queue     controllers.Queue
}

func (l leftovers) WaitSynced(ctx context.Context) error {
	if err := l.endpoints.WaitSynced(ctx); err != nil {
		return err
	}
	for _, e := range l.endpoints.List(metav1.NamespaceAll) {
		if _, lock := e.Annotations[leaderAnnotation]; !lock {
			l.queue.Add(controllers.KeyOf(e))
		}
	}
	return nil
}

// Reconcile implements controllers.Controller.
func (c *Controller) Reconcile(ctx context.Context, key controllers.Key) (controllers.Result, error) {
	service, ok := c.in.Services.Get(key.Namespace, key.Name)
	if !ok {
		c.triggers.Forget(key)
		c.unseen.Forget(key)
		c.written.Forget(key)
		err := c.client.Delete(ctx, kind().Target(key.Namespace, key.Name), metav1.DeleteOptions{})
		if apierrors.IsNotFound(err) {
			err = nil
		}
		return controllers.Result{}, err
	}
	if !backends.Selected(service) {
		return controllers.Result{}, nil
	}
	current, wait := c.current(key, service)
	if wait > 0 {
		return controllers.Result{RequeueAfter: wait}, nil
	}
	pods := backends.Of(service, c.in.Pods)
	trigger := c.triggers.Time(service, pods) // whether or not this leads to a write
	wanted := subsets(service, pods)
	exists := current != nil
	if !exists {
		current = &corev1.Endpoints{ObjectMeta: metav1.ObjectMeta{Name: service.Name, Namespace: service.Namespace}}
	} else if upToDate(current, service, wanted) {
		return controllers.Result{}, nil
	}
	return controllers.Result{}, c.write(ctx, service, desired(current, service, wanted, trigger), exists)
}

// current returns the cached Endpoints, nil if there are none. If the cache does not show the last write yet, the
// service must wait: it is enqueued again when it does.
func (c *Controller) current(key controllers.Key, service *corev1.Service) (*corev1.Endpoints, time.Duration) {
	look := func() (*corev1.Endpoints, time.Duration) {
		current, exists := c.in.Endpoints.Get(key.Namespace, key.Name)
		switch {
		case !exists:
			return nil, c.unseen.Wait(key, time.Now())
		case c.written.Behind(current, service.UID):
			return nil, time.Minute
		}
		return current, 0
	}
	if current, wait := look(); wait == 0 {
		return current, 0
	}
	c.waiting.Add(key)
	return look() // it may have arrived before the service began to wait
}

func (c *Controller) write(ctx context.Context, service *corev1.Service, next *corev1.Endpoints, exists bool) error {
	var (
		err     error
		reason  = "FailedToUpdateEndpoint"
		message = fmt.Sprintf("Failed to update endpoint %s/%s", service.Namespace, service.Name)
		target  = kind().Target(next.Namespace, next.Name)
	)
	if exists {
		var updated *corev1.Endpoints
		if updated, err = client.As[*corev1.Endpoints](c.client.Update(ctx, target, next, metav1.UpdateOptions{})); err == nil {
			c.written.Wrote(updated, service.UID)
		}
	} else {
		reason, message = "FailedToCreateEndpoint", fmt.Sprintf("Failed to create endpoint for service %s/%s", service.Namespace, service.Name)
		target.Name = ""
		c.unseen.Creations(controllers.KeyOf(service), 1)
		if _, err = c.client.Create(ctx, target, next, metav1.CreateOptions{}); err != nil {
			c.unseen.Forget(controllers.KeyOf(service))
		}
		if apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
			return nil // a retry would fail, too
		}
	}
	if err != nil {
		c.recorder.Record(events.Event{
			Regarding: events.About(kind().GroupVersionKind, next),
			Type:      corev1.EventTypeWarning, Reason: reason, Message: fmt.Sprintf("%s: %v", message, err),
		})
	}
	return err
}
