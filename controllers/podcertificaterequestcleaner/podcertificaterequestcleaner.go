// Package podcertificaterequestcleaner is upstream's podcertificaterequest-cleaner-controller: it deletes
// PodCertificateRequests, whatever has become of them, a quarter of an hour after they were made.
//
// It looks for them every five minutes. A Controller runs in a controllers.Loop and has a single key. A request that cannot
// be deleted is logged and tried again in the next round.
package podcertificaterequestcleaner

import (
	"context"
	"log/slog"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/controllers"
	"github.com/keelson-dev/keelson/informer"
)

const (
	// period is the time between two rounds.
	period = 5 * time.Minute
	// age is how long requests are kept.
	age = 15 * time.Minute
)

// Sources are what the controller reads.
type Sources struct {
	Requests *informer.Informer[*certificatesv1.PodCertificateRequest]
}

// Options of a Controller. The zero value behaves as upstream.
type Options struct {
	// Logger logs failed requests; nil discards.
	Logger *slog.Logger
}

// Controller is the podcertificaterequest-cleaner-controller. Make one with New.
type Controller struct {
	in     Sources
	client client.Deleter
	log    *slog.Logger
}

var _ controllers.Controller = (*Controller)(nil)

// New makes the controller.
func New(in Sources, c client.Deleter, o Options) *Controller {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return &Controller{in: in, client: c, log: o.Logger}
}

// Name is "podcertificaterequest-cleaner-controller".
func (*Controller) Name() string { return "podcertificaterequest-cleaner-controller" }

// Watch enqueues the controller's only key; each round schedules the next.
func (c *Controller) Watch(q controllers.Queue) []controllers.Synced {
	q.Add(controllers.Key{Name: "(round)"})
	return []controllers.Synced{c.in.Requests}
}

// Reconcile runs one round.
func (c *Controller) Reconcile(ctx context.Context, _ controllers.Key) (controllers.Result, error) {
	now := time.Now()
	for _, r := range c.in.Requests.List("") {
		if ctx.Err() != nil || now.Before(r.CreationTimestamp.Add(age)) {
			continue
		}
		at := client.Target{Resource: certificatesv1.SchemeGroupVersion.WithResource("podcertificaterequests"), Namespace: r.Namespace, Name: r.Name}
		err := c.client.Delete(ctx, at, *metav1.NewPreconditionDeleteOptions(string(r.UID)))
		if err != nil && !apierrors.IsNotFound(err) {
			c.log.Warn("deleting a request failed", "request", controllers.KeyOf(r).String(), "error", err)
		}
	}
	return controllers.Result{RequeueAfter: period}, nil
}
