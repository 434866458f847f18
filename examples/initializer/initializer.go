package main

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/keelson-dev/keelson/admission/initializers"
	"github.com/keelson-dev/keelson/client"
	clientrest "github.com/keelson-dev/keelson/client/rest"
	"github.com/keelson-dev/keelson/controllers"
	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/informer/wire"
	"github.com/keelson-dev/keelson/lifecycle"
)

// Initializer completes new objects of a kind before anybody else sees them. It is a controller that also sees what others
// do not.
type Initializer[T informer.Object] struct {
	name     string
	resource schema.GroupVersionResource
	complete Complete[T]
	objects  *informer.Informer[T]
	client   client.Updater
}

// Complete changes a new object, or returns why it must not come to be.
type Complete[T informer.Object] func(T) *metav1.Status

// New returns an initializer of a server's objects, with the informer that it reads. The name is that in the
// InitializerConfiguration.
func New[T informer.Object](config *rest.Config, name string, resource schema.GroupVersionResource, complete Complete[T]) (lifecycle.Runnable, error) {
	source, err := wire.New[T](config, scheme.Scheme, resource, wire.Options{Uninitialized: true})
	if err != nil {
		return nil, err
	}
	c, err := clientrest.New(config, scheme.Scheme)
	if err != nil {
		return nil, err
	}
	i := &Initializer[T]{name, resource, complete, informer.New(source, informer.Options{}), c}
	return lifecycle.Group(i.objects, controllers.NewLoop(i, controllers.Options{})), nil
}

// Name implements controllers.Controller.
func (i *Initializer[T]) Name() string { return i.name }

// Watch implements controllers.Controller.
func (i *Initializer[T]) Watch(q controllers.Queue) []controllers.Synced {
	enqueue := func(obj T) {
		if initializers.Next(obj) == i.name {
			q.Add(controllers.Key{Namespace: obj.GetNamespace(), Name: obj.GetName()})
		}
	}
	i.objects.AddHandler(informer.Handler[T]{Added: enqueue, Updated: func(_, obj T) { enqueue(obj) }})
	return []controllers.Synced{i.objects}
}

// Reconcile implements controllers.Controller.
func (i *Initializer[T]) Reconcile(ctx context.Context, key controllers.Key) (controllers.Result, error) {
	seen, ok := i.objects.Get(key.Namespace, key.Name)
	if !ok || initializers.Next(seen) != i.name {
		return controllers.Result{}, nil
	}
	obj := seen.DeepCopyObject().(T)
	var err error
	if why := i.complete(obj); why != nil {
		obj = seen.DeepCopyObject().(T)
		err = initializers.Reject(obj, i.name, *why)
	} else {
		err = initializers.Done(obj, i.name)
	}
	if err == nil {
		at := client.Target{Resource: i.resource, Namespace: key.Namespace, Name: key.Name}
		_, err = i.client.Update(ctx, at, obj, metav1.UpdateOptions{})
	}
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		err = nil // there is a newer state, which comes along
	}
	return controllers.Result{}, err
}
