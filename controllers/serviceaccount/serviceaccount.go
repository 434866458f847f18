// Package serviceaccount is upstream's serviceaccount-controller: it creates a service account named default in every
// active namespace, and creates it again when it is deleted.
//
// Reconcile returns failed creations, which are retried. A Controller starts no goroutines and is safe for concurrent
// use by the workers of a Loop.
package serviceaccount

import (
	"context"
	"errors"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/controllers"
	"github.com/keelson-dev/keelson/informer"
)

// Sources are what the controller reads.
type Sources struct {
	Namespaces      *informer.Informer[*corev1.Namespace]
	ServiceAccounts *informer.Informer[*corev1.ServiceAccount]
}

// Options of a Controller. The zero value behaves as upstream.
type Options struct {
	// Names are the accounts of every namespace; empty means "default".
	Names []string
}

// Controller is the serviceaccount-controller. Make one with New.
type Controller struct {
	in     Sources
	client client.Creator
	names  []string
}

var _ controllers.Controller = (*Controller)(nil)

// New makes the controller.
func New(in Sources, c client.Creator, o Options) *Controller {
	if len(o.Names) == 0 {
		o.Names = []string{"default"}
	}
	return &Controller{in: in, client: c, names: o.Names}
}

// Name is "serviceaccount-controller".
func (*Controller) Name() string { return "serviceaccount-controller" }

// Watch enqueues new and changed namespaces, and those that lose an account.
func (c *Controller) Watch(q controllers.Queue) []controllers.Synced {
	enqueue := func(ns *corev1.Namespace) { q.Add(controllers.Key{Name: ns.Name}) }
	c.in.Namespaces.AddHandler(informer.Handler[*corev1.Namespace]{
		Added:   enqueue,
		Updated: func(_, ns *corev1.Namespace) { enqueue(ns) },
	})
	c.in.ServiceAccounts.AddHandler(informer.Handler[*corev1.ServiceAccount]{
		Deleted: func(account *corev1.ServiceAccount) { q.Add(controllers.Key{Name: account.Namespace}) },
	})
	return []controllers.Synced{c.in.Namespaces, c.in.ServiceAccounts}
}

// Reconcile creates the accounts that the namespace lacks.
func (c *Controller) Reconcile(ctx context.Context, key controllers.Key) (controllers.Result, error) {
	ns, ok := c.in.Namespaces.Get("", key.Name)
	if !ok || ns.Status.Phase != corev1.NamespaceActive {
		return controllers.Result{}, nil
	}
	var failures []error
	for _, name := range c.names {
		if _, ok := c.in.ServiceAccounts.Get(ns.Name, name); ok {
			continue
		}
		account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: ns.Name, Name: name}}
		at := client.Target{Resource: corev1.SchemeGroupVersion.WithResource("serviceaccounts"), Namespace: ns.Name}
		_, err := c.client.Create(ctx, at, account, metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) || apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
			continue
		}
		failures = append(failures, err) // nil if it exists now
	}
	return controllers.Result{}, errors.Join(failures...)
}
