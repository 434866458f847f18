package vacprotection

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/controllers"
	"github.com/keelson-dev/keelson/informer"
)

// Sources are what the controller reads.
type Sources struct {
	// Classes are protected while Volumes and Claims use them.
	Classes *informer.Informer[*storagev1.VolumeAttributesClass]
	Volumes *informer.Informer[*corev1.PersistentVolume]
	Claims  *informer.Informer[*corev1.PersistentVolumeClaim]
}

// Controller is the volumeattributesclass-protection-controller. Make one with New.
type Controller struct {
	in     Sources
	client client.Updater
}

var _ controllers.Controller = (*Controller)(nil)

const (
	// finalizer keeps a class that is in use.
	finalizer = "kubernetes.io/vac-protection"
	// byClass indexes volumes and claims by the classes that they use.
	byClass = "volumeAttributesClassName"
)

// New makes the controller. It adds indexes of volumes and claims, so that their informers must not run yet.
func New(in Sources, c client.Updater) *Controller {
	in.Volumes.AddIndex(byClass, ofVolume)
	in.Claims.AddIndex(byClass, ofClaim)
	return &Controller{in, c}
}

// Name is "volumeattributesclass-protection-controller".
func (*Controller) Name() string { return "volumeattributesclass-protection-controller" }

// Watch enqueues classes that may have to get or lose the finalizer.
func (c *Controller) Watch(q controllers.Queue) []controllers.Synced {
	class := func(class *storagev1.VolumeAttributesClass) {
		if protected(class) == (class.DeletionTimestamp != nil) {
			q.Add(controllers.KeyOf(class))
		}
	}
	c.in.Classes.AddHandler(informer.Handler[*storagev1.VolumeAttributesClass]{
		Added:   class,
		Updated: func(_, next *storagev1.VolumeAttributesClass) { class(next) },
	})
	c.in.Volumes.AddHandler(freed(q, ofVolume))
	c.in.Claims.AddHandler(freed(q, ofClaim))
	return []controllers.Synced{c.in.Classes, c.in.Volumes, c.in.Claims}
}

// freed enqueues the classes that an object stops using.
func freed[T informer.Object](q controllers.Queue, used func(T) []string) informer.Handler[T] {
	release := func(before, now []string) {
		for _, name := range before {
			if !slices.Contains(now, name) {
				q.Add(controllers.Key{Name: name})
			}
		}
	}
	return informer.Handler[T]{
		Updated: func(old, next T) { release(used(old), used(next)) },
		Deleted: func(last T) { release(used(last), nil) },
	}
}

// ofVolume returns the class of a volume.
func ofVolume(volume *corev1.PersistentVolume) []string {
	return names(volume.Spec.VolumeAttributesClassName)
}

// ofClaim returns the classes that a claim asks for, has, and is being changed to.
func ofClaim(claim *corev1.PersistentVolumeClaim) []string {
	all := []*string{claim.Spec.VolumeAttributesClassName, claim.Status.CurrentVolumeAttributesClassName}
	if modify := claim.Status.ModifyVolumeStatus; modify != nil {
		all = append(all, &modify.TargetVolumeAttributesClassName)
	}
	return names(all...)
}

func names(all ...*string) []string {
	var set []string
	for _, name := range all {
		if name != nil && *name != "" && !slices.Contains(set, *name) {
			set = append(set, *name)
		}
	}
	return set
}

func protected(class *storagev1.VolumeAttributesClass) bool {
	return slices.Contains(class.Finalizers, finalizer)
}

// Reconcile adds the finalizer, or removes it from a class that is being deleted and unused.
func (c *Controller) Reconcile(ctx context.Context, key controllers.Key) (controllers.Result, error) {
	class, ok := c.in.Classes.Get("", key.Name)
	if !ok || protected(class) != (class.DeletionTimestamp != nil) {
		return controllers.Result{}, nil
	}
	next := class.DeepCopy()
	if class.DeletionTimestamp == nil {
		next.Finalizers = append(next.Finalizers, finalizer)
	} else {
		if c.used(class.Name) {
			return controllers.Result{}, nil
		}
		next.Finalizers = slices.DeleteFunc(next.Finalizers, func(f string) bool { return f == finalizer })
	}
	at := client.Target{Resource: storagev1.SchemeGroupVersion.WithResource("volumeattributesclasses"), Name: class.Name}
	if _, err := c.client.Update(ctx, at, next, metav1.UpdateOptions{}); err != nil {
		return controllers.Result{}, fmt.Errorf("changing the finalizers: %w", err)
	}
	return controllers.Result{}, nil
}

func (c *Controller) used(class string) bool {
	return len(c.in.Volumes.ByIndex(byClass, class)) > 0 || len(c.in.Claims.ByIndex(byClass, class)) > 0
}
