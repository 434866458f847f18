package pvprotection

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/controllers"
	"github.com/keelson-dev/keelson/informer"
)

// Finalizer keeps a volume that is bound.
const Finalizer = "kubernetes.io/pv-protection"

// Controller is the persistentvolume-protection-controller. Make one with New.
type Controller struct {
	volumes *informer.Informer[*corev1.PersistentVolume]
	client  client.Updater
}

var _ controllers.Controller = (*Controller)(nil)

// New makes the controller. The client updates volumes, as the service account pv-protection-controller.
func New(volumes *informer.Informer[*corev1.PersistentVolume], c client.Updater) *Controller {
	return &Controller{volumes: volumes, client: c}
}

// Name is "persistentvolume-protection-controller".
func (*Controller) Name() string { return "persistentvolume-protection-controller" }

// Watch enqueues volumes with something to do.
func (c *Controller) Watch(q controllers.Queue) []controllers.Synced {
	see := func(pv *corev1.PersistentVolume) {
		if _, changed := protect(pv); changed {
			q.Add(controllers.KeyOf(pv))
		}
	}
	c.volumes.AddHandler(informer.Handler[*corev1.PersistentVolume]{
		Added: see, Updated: func(_, pv *corev1.PersistentVolume) { see(pv) },
	})
	return []controllers.Synced{c.volumes}
}

// Reconcile adds or removes the finalizer of a volume.
func (c *Controller) Reconcile(ctx context.Context, key controllers.Key) (controllers.Result, error) {
	pv, ok := c.volumes.Get("", key.Name)
	if !ok {
		return controllers.Result{}, nil
	}
	finalizers, changed := protect(pv)
	if !changed {
		return controllers.Result{}, nil
	}
	next := pv.DeepCopy()
	next.Finalizers = finalizers
	at := client.Target{Resource: corev1.SchemeGroupVersion.WithResource("persistentvolumes"), Name: pv.Name}
	if _, err := c.client.Update(ctx, at, next, metav1.UpdateOptions{}); err != nil {
		return controllers.Result{}, fmt.Errorf("updating finalizers: %w", err)
	}
	return controllers.Result{}, nil
}

// protect returns the finalizers that a volume should have, and whether that is a change.
func protect(pv *corev1.PersistentVolume) ([]string, bool) {
	protected := slices.Contains(pv.Finalizers, Finalizer)
	switch {
	case pv.DeletionTimestamp == nil && !protected:
		return append(slices.Clone(pv.Finalizers), Finalizer), true
	case pv.DeletionTimestamp != nil && protected && pv.Status.Phase != corev1.VolumeBound:
		return slices.DeleteFunc(slices.Clone(pv.Finalizers), func(f string) bool { return f == Finalizer }), true
	}
	return pv.Finalizers, false
}
