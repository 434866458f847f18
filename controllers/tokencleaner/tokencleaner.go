// Package tokencleaner is upstream's token-cleaner-controller: it deletes the secrets of bootstrap tokens when they expire.
//
// Reconcile returns an error when a deletion fails, which is retried. A Controller starts no goroutines and is safe for
// concurrent use.
package tokencleaner

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/controllers"
	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/internal/bootstraptoken"
)

// Sources are what the controller reads.
type Sources struct {
	Secrets *informer.Informer[*corev1.Secret]
}

// Controller is the token-cleaner-controller. Make one with New.
type Controller struct {
	in     Sources
	client client.Deleter
}

var _ controllers.Controller = (*Controller)(nil)

// New makes the controller. c deletes secrets.
func New(in Sources, c client.Deleter) *Controller { return &Controller{in: in, client: c} }

// Name is "token-cleaner-controller".
func (*Controller) Name() string { return "token-cleaner-controller" }

// Watch enqueues new and changed secrets of tokens.
func (c *Controller) Watch(q controllers.Queue) []controllers.Synced {
	token := func(s *corev1.Secret) {
		if bootstraptoken.Is(s) {
			q.Add(controllers.KeyOf(s))
		}
	}
	c.in.Secrets.AddHandler(informer.Handler[*corev1.Secret]{Added: token, Updated: func(_, s *corev1.Secret) { token(s) }})
	return []controllers.Synced{c.in.Secrets}
}

// Reconcile deletes the secret if its token has expired, or looks at it again when it will have.
func (c *Controller) Reconcile(ctx context.Context, key controllers.Key) (controllers.Result, error) {
	s, ok := c.in.Secrets.Get(key.Namespace, key.Name)
	if !ok || !bootstraptoken.Is(s) {
		return controllers.Result{}, nil
	}
	left, expired := bootstraptoken.Expiration(s, time.Now())
	if !expired {
		return controllers.Result{RequeueAfter: left}, nil
	}
	at := client.Target{Resource: corev1.SchemeGroupVersion.WithResource("secrets"), Namespace: s.Namespace, Name: s.Name}
	err := c.client.Delete(ctx, at, *metav1.NewPreconditionDeleteOptions(string(s.UID)))
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		err = nil // another has its name by now, or none
	}
	return controllers.Result{}, err
}
