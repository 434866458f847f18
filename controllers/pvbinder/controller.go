package pvbinder

import (
	"cmp"
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/controllers"
	"github.com/keelson-dev/keelson/controllers/internal/pods"
	"github.com/keelson-dev/keelson/events"
	"github.com/keelson-dev/keelson/informer"
)

// Sources are what the controller reads.
type Sources struct {
	Volumes *informer.Informer[*corev1.PersistentVolume]
	Claims  *informer.Informer[*corev1.PersistentVolumeClaim]
	Pods    *informer.Informer[*corev1.Pod]
	// Classes are the storage classes.
	Classes *informer.Informer[*storagev1.StorageClass]
}

// Client is what the controller needs of the server, as the service account persistent-volume-binder: to read claims and
// volumes past the caches, and to update them and their status.
type Client interface {
	client.Getter
	client.Updater
}

// Options of a Controller. The zero value behaves as upstream.
type Options struct {
	// Period is how often all claims and volumes are looked at again, even if nothing changes; 0 means 15 s.
	Period time.Duration
}

// Controller is the persistentvolume-binder-controller. Make one with New.
type Controller struct {
	in       Sources
	client   Client
	recorder events.Recorder
	period   time.Duration
	queue    controllers.Queue
	// turn holds a value while a worker acts; what follows is used by that worker only. It is a channel because time
	// may pass while others wait for their turn.
	turn    chan struct{}
	filled  bool
	volumes store[*corev1.PersistentVolume]
	claims  store[*corev1.PersistentVolumeClaim]
}

var _ controllers.Controller = (*Controller)(nil)

// New makes the controller. It adds an index to the informer of pods.
func New(in Sources, c Client, r events.Recorder, o Options) *Controller {
	pods.IndexByClaim(in.Pods)
	return &Controller{
		in: in, client: c, recorder: r, period: cmp.Or(o.Period, 15*time.Second),
		turn: make(chan struct{}, 1), volumes: store[*corev1.PersistentVolume]{}, claims: store[*corev1.PersistentVolumeClaim]{},
	}
}

// Name is "persistentvolume-binder-controller".
func (*Controller) Name() string { return "persistentvolume-binder-controller" }

// again is the key of looking at everything again. No object has this name.
func again() controllers.Key { return controllers.Key{Name: "(all)"} }

// Watch enqueues claims, by namespace and name, and volumes, by their name.
func (c *Controller) Watch(q controllers.Queue) []controllers.Synced {
	c.queue = q
	c.in.Volumes.AddHandler(informer.Handler[*corev1.PersistentVolume]{
		Added:   func(pv *corev1.PersistentVolume) { q.Add(controllers.KeyOf(pv)) },
		Updated: func(_, pv *corev1.PersistentVolume) { q.Add(controllers.KeyOf(pv)) },
		Deleted: func(pv *corev1.PersistentVolume) { q.Add(controllers.KeyOf(pv)) },
	})
	c.in.Claims.AddHandler(informer.Handler[*corev1.PersistentVolumeClaim]{
		Added:   func(claim *corev1.PersistentVolumeClaim) { q.Add(controllers.KeyOf(claim)) },
		Updated: func(_, claim *corev1.PersistentVolumeClaim) { q.Add(controllers.KeyOf(claim)) },
		Deleted: func(claim *corev1.PersistentVolumeClaim) { q.Add(controllers.KeyOf(claim)) },
	})
	q.AddAfter(again(), c.period)
	return []controllers.Synced{c.in.Volumes, c.in.Claims, c.in.Classes, c.in.Pods}
}

// Reconcile brings the binding of a claim or a volume a step further.
func (c *Controller) Reconcile(ctx context.Context, key controllers.Key) (controllers.Result, error) {
	select {
	case c.turn <- struct{}{}:
		defer func() { <-c.turn }()
	case <-ctx.Done():
		return controllers.Result{}, ctx.Err()
	}
	c.fill()
	switch {
	case key == again():
		for _, pv := range c.in.Volumes.List("") {
			c.queue.Add(controllers.KeyOf(pv))
		}
		for _, claim := range c.in.Claims.List("") {
			c.queue.Add(controllers.KeyOf(claim))
		}
		return controllers.Result{RequeueAfter: c.period}, nil
	case key.Namespace == "":
		return controllers.Result{}, c.reconcileVolume(ctx, key)
	default:
		return controllers.Result{}, c.reconcileClaim(ctx, key)
	}
}

// fill notes, before the first decision, what there is: a claim must not be taken for deleted because it has not had its
// turn yet.
func (c *Controller) fill() {
	if c.filled {
		return
	}
	c.filled = true
	for _, pv := range c.in.Volumes.List("") {
		c.volumes.put(pv)
	}
	for _, claim := range c.in.Claims.List("") {
		c.claims.put(claim)
	}
}

func (c *Controller) reconcileClaim(ctx context.Context, key controllers.Key) error {
	claim, exists := c.in.Claims.Get(key.Namespace, key.Name)
	if exists {
		if !c.claims.put(claim) {
			return nil // the cache does not know of an update of our own yet
		}
		return c.syncClaim(ctx, claim)
	}
	last, known := c.claims[key]
	delete(c.claims, key)
	if known && last.Spec.VolumeName != "" {
		c.queue.Add(controllers.Key{Name: last.Spec.VolumeName}) // it is to be released
	}
	return nil
}

func (c *Controller) reconcileVolume(ctx context.Context, key controllers.Key) error {
	pv, exists := c.in.Volumes.Get("", key.Name)
	if exists {
		if !c.volumes.put(pv) {
			return nil
		}
		return c.syncVolume(ctx, pv)
	}
	last, known := c.volumes[key]
	delete(c.volumes, key)
	if known && last.Spec.ClaimRef != nil {
		c.queue.Add(claimOf(last)) // it is lost
	}
	return nil
}

func claimOf(pv *corev1.PersistentVolume) controllers.Key {
	return controllers.Key{Namespace: pv.Spec.ClaimRef.Namespace, Name: pv.Spec.ClaimRef.Name}
}

// report is an event to be.
type report struct{ level, reason, message string }

func (c *Controller) tell(obj metav1.Object, r *report) {
	kind := "PersistentVolume"
	if obj.GetNamespace() != "" {
		kind = "PersistentVolumeClaim"
	}
	c.recorder.Record(events.Event{
		Regarding: events.About(corev1.SchemeGroupVersion.WithKind(kind), obj), Type: r.level, Reason: r.reason, Message: r.message,
	})
}

func target(obj metav1.Object, subresource string) client.Target {
	resource := "persistentvolumes"
	if obj.GetNamespace() != "" {
		resource = "persistentvolumeclaims"
	}
	return client.Target{
		Resource: corev1.SchemeGroupVersion.WithResource(resource), Namespace: obj.GetNamespace(), Name: obj.GetName(), Subresource: subresource,
	}
}

// writeVolume updates a volume, or its status, and returns what is stored.
func (c *Controller) writeVolume(ctx context.Context, pv *corev1.PersistentVolume, subresource string) (*corev1.PersistentVolume, error) {
	stored, err := client.As[*corev1.PersistentVolume](c.client.Update(ctx, target(pv, subresource), pv, metav1.UpdateOptions{}))
	if err != nil {
		return nil, fmt.Errorf("updating volume %s: %w", pv.Name, err)
	}
	c.volumes.put(stored)
	return stored, nil
}

// writeClaim updates a claim, or its status, and returns what is stored.
func (c *Controller) writeClaim(ctx context.Context, claim *corev1.PersistentVolumeClaim, subresource string) (*corev1.PersistentVolumeClaim, error) {
	stored, err := client.As[*corev1.PersistentVolumeClaim](c.client.Update(ctx, target(claim, subresource), claim, metav1.UpdateOptions{}))
	if err != nil {
		return nil, fmt.Errorf("updating claim %s: %w", controllers.KeyOf(claim), err)
	}
	c.claims.put(stored)
	return stored, nil
}
