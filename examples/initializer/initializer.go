package main

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
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

const (
	name     = "secrets.example.com"
	shortest = 8 // of a value, in bytes
)

// Initializer initializes secrets: those with a value that is too short are rejected. It is a controller that also sees
// what others do not.
type Initializer struct {
	secrets *informer.Informer[*corev1.Secret]
	client  client.Updater
}

// New returns the initializer of a server's secrets, with the informer that it reads.
func New(config *rest.Config) (lifecycle.Runnable, error) {
	source, err := wire.New[*corev1.Secret](config, scheme.Scheme, resource(), wire.Options{Uninitialized: true})
	if err != nil {
		return nil, err
	}
	c, err := clientrest.New(config, scheme.Scheme)
	if err != nil {
		return nil, err
	}
	i := &Initializer{informer.New(source, informer.Options{}), c}
	return lifecycle.Group(i.secrets, controllers.NewLoop(i, controllers.Options{})), nil
}

func resource() schema.GroupVersionResource { return corev1.SchemeGroupVersion.WithResource("secrets") }

// Name implements controllers.Controller.
func (*Initializer) Name() string { return name }

// Watch implements controllers.Controller.
func (i *Initializer) Watch(q controllers.Queue) []controllers.Synced {
	enqueue := func(s *corev1.Secret) {
		if initializers.Next(s) == name {
			q.Add(controllers.Key{Namespace: s.Namespace, Name: s.Name})
		}
	}
	i.secrets.AddHandler(informer.Handler[*corev1.Secret]{Added: enqueue, Updated: func(_, s *corev1.Secret) { enqueue(s) }})
	return []controllers.Synced{i.secrets}
}

// Reconcile implements controllers.Controller.
func (i *Initializer) Reconcile(ctx context.Context, key controllers.Key) (controllers.Result, error) {
	seen, ok := i.secrets.Get(key.Namespace, key.Name)
	if !ok || initializers.Next(seen) != name {
		return controllers.Result{}, nil
	}
	s := seen.DeepCopy()
	err := initializers.Done(s, name)
	if short := tooShort(seen); len(short) > 0 {
		s = seen.DeepCopy()
		err = initializers.Reject(s, name, apierrors.NewInvalid(schema.GroupKind{Kind: "Secret"}, s.Name, short).ErrStatus)
	}
	if err == nil {
		at := client.Target{Resource: resource(), Namespace: key.Namespace, Name: key.Name}
		_, err = i.client.Update(ctx, at, s, metav1.UpdateOptions{})
	}
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		err = nil // there is a newer state, which comes along
	}
	return controllers.Result{}, err
}

func tooShort(s *corev1.Secret) field.ErrorList {
	var errs field.ErrorList
	for key, value := range s.Data {
		if len(value) < shortest {
			errs = append(errs, field.Invalid(field.NewPath("data").Key(key), "", fmt.Sprintf("must have at least %d bytes", shortest)))
		}
	}
	return errs
}
