package resourcequota

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/controllers"
	"github.com/keelson-dev/keelson/controllers/internal/gate"
	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/internal/quota"
)

// Sources is what the controller reads.
type Sources struct {
	Quotas   *informer.Informer[*corev1.ResourceQuota]
	Pods     *informer.Informer[*corev1.Pod]
	Services *informer.Informer[*corev1.Service]
	// Counted are all other namespaced resources whose objects quotas may count, without the Ignored ones.
	Counted map[schema.GroupResource]*informer.Informer[informer.Object]
}

// Options of a Controller. The zero value is ready to use.
type Options struct {
	// Resync is the time between two checks of all quotas; 0 means 5 min.
	Resync time.Duration
	// Quiet is how long a quota must not have been charged before usage that nothing accounts for is removed; 0 means 2
	// min. It must be longer than any write may take.
	Quiet time.Duration
}

// Controller is the resourcequota-controller. Make one with New.
type Controller struct {
	in      Sources
	client  client.Updater
	options Options
	ledger  *ledger

	gate gate.Gate // so that no usage is written while resources change

	mu      sync.Mutex // guards what follows and in.Counted
	queue   controllers.Queue
	watched map[*informer.Informer[informer.Object]]*informer.Registration
}

var _ controllers.Controller = (*Controller)(nil)

// New makes the controller. It writes as the service account resourcequota-controller.
func New(in Sources, c client.Updater, o Options) *Controller {
	o.Resync = cmp.Or(o.Resync, 5*time.Minute)
	o.Quiet = cmp.Or(o.Quiet, 2*time.Minute)
	resources := quota.Known()
	for gr := range in.Counted {
		resources = append(resources, gr)
	}
	return &Controller{in: in, client: c, options: o, ledger: newLedger(resources), watched: map[*informer.Informer[informer.Object]]*informer.Registration{}}
}

// Follow replaces Sources.Counted. It may be called at any time, and returns once the objects of new resources are
// counted; until then no usage is written. The error is that of the context.
func (c *Controller) Follow(ctx context.Context, counted map[schema.GroupResource]*informer.Informer[informer.Object]) error {
	if err := c.gate.Close(ctx); err != nil {
		return err
	}
	defer c.gate.Open()
	added := c.replace(counted)
	for _, objects := range added {
		if err := objects.WaitSynced(ctx); err != nil && !errors.Is(err, informer.ErrStopped) {
			return err
		}
	}
	if len(added) > 0 {
		for _, rq := range c.in.Quotas.List("") {
			c.queue.Add(controllers.KeyOf(rq))
		}
	}
	return nil
}

// replace replaces the counted resources, and returns the informers that are new.
func (c *Controller) replace(counted map[schema.GroupResource]*informer.Informer[informer.Object]) []controllers.Synced {
	c.mu.Lock()
	defer c.mu.Unlock()
	before := c.in.Counted
	c.in.Counted = counted
	for gr, objects := range before {
		if handler := c.watched[objects]; handler != nil && counted[gr] != objects {
			handler.Remove()
			<-handler.Done() // it will not be called any more
			c.ledger.forget(gr)
			delete(c.watched, objects)
		}
	}
	for gr := range counted {
		c.ledger.know(gr)
	}
	if c.queue == nil {
		return nil // Watch will attach the handlers
	}
	return c.attach()
}

// attach feeds the ledger with the counted resources that do not feed it yet, and returns their informers.
func (c *Controller) attach() []controllers.Synced {
	var added []controllers.Synced
	for gr, objects := range c.in.Counted {
		if !quota.Ignored(gr) && c.watched[objects] == nil {
			c.watched[objects] = follow(objects, c.ledger, gr, c.queue)
			added = append(added, objects)
		}
	}
	return added
}

// Ignored reports whether quotas do not count a resource.
func Ignored(gr schema.GroupResource) bool { return quota.Ignored(gr) }

// Name is "resourcequota-controller".
func (*Controller) Name() string { return "resourcequota-controller" }

// all returns the key for a check of all quotas.
func all() controllers.Key { return controllers.Key{Name: "(resync)"} }

// Watch enqueues quotas that change, or whose objects release usage.
func (c *Controller) Watch(q controllers.Queue) []controllers.Synced {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.queue = q
	synced := []controllers.Synced{c.in.Quotas, c.in.Pods, c.in.Services}
	track := func(rq *corev1.ResourceQuota) {
		c.ledger.track(rq, time.Now())
		q.Add(controllers.KeyOf(rq))
	}
	c.in.Quotas.AddHandler(informer.Handler[*corev1.ResourceQuota]{
		Added: track, Updated: func(_, rq *corev1.ResourceQuota) { track(rq) }, Deleted: c.ledger.untrack,
	})
	follow(c.in.Quotas, c.ledger, schema.GroupResource{Resource: "resourcequotas"}, q)
	follow(c.in.Pods, c.ledger, schema.GroupResource{Resource: "pods"}, q)
	follow(c.in.Services, c.ledger, schema.GroupResource{Resource: "services"}, q)
	synced = append(synced, c.attach()...)
	q.AddAfter(all(), c.options.Resync)
	return synced
}

// follow feeds the ledger with the objects of a resource.
func follow[T informer.Object](objects *informer.Informer[T], l *ledger, gr schema.GroupResource, q controllers.Queue) *informer.Registration {
	enqueue := func(keys []controllers.Key) {
		for _, key := range keys {
			q.Add(key)
		}
	}
	h := informer.Handler[T]{
		Added:   func(obj T) { enqueue(l.put(gr, obj, time.Now())) },
		Deleted: func(last T) { enqueue(l.drop(gr, last, time.Now())) },
	}
	if !quota.For(gr).Counts() {
		h.Updated = func(_, obj T) { enqueue(l.put(gr, obj, time.Now())) }
	}
	return objects.AddHandler(h)
}

// Reconcile updates the status of one quota.
func (c *Controller) Reconcile(ctx context.Context, key controllers.Key) (controllers.Result, error) {
	if err := c.gate.Enter(ctx); err != nil {
		return controllers.Result{}, err
	}
	defer c.gate.Leave()
	if key == all() {
		return c.resync(), nil
	}
	rq, ok := c.in.Quotas.Get(key.Namespace, key.Name)
	if !ok {
		return controllers.Result{}, nil
	}
	return c.reconcile(ctx, rq)
}

func (c *Controller) reconcile(ctx context.Context, rq *corev1.ResourceQuota) (controllers.Result, error) {
	v, ok := c.ledger.judge(rq, time.Now(), c.options.Quiet)
	if !ok {
		return controllers.Result{}, nil // the handler has yet to see the quota
	}
	if v.write {
		if err := c.write(ctx, rq, v); err != nil {
			return controllers.Result{}, err
		}
	}
	if !v.unaccounted {
		return controllers.Result{}, nil
	}
	return controllers.Result{RequeueAfter: max(time.Until(v.since.Add(c.options.Quiet)), time.Second)}, nil
}

// write stores the status if the quota has not changed since it was computed. Otherwise the quota has been charged, and
// the cache is about to show that.
func (c *Controller) write(ctx context.Context, rq *corev1.ResourceQuota, v verdict) error {
	wanted := rq.DeepCopy()
	wanted.Status = v.status
	at := client.Target{
		Resource: corev1.SchemeGroupVersion.WithResource("resourcequotas"), Namespace: rq.Namespace, Name: rq.Name, Subresource: "status",
	}
	_, err := c.client.Update(ctx, at, wanted, metav1.UpdateOptions{})
	switch {
	case apierrors.IsConflict(err), apierrors.IsNotFound(err):
		return nil
	case !refused(err):
		// If it is unknown whether the status was written, assume that it was: releasing usage twice would admit too
		// much; usage not released now is released later, when the quota is quiet.
		c.ledger.settle(rq, v.released)
	}
	return err
}

// refused reports whether err means for certain that nothing was written.
func refused(err error) bool {
	var status apierrors.APIStatus
	return errors.As(err, &status) && status.Status().Code >= 400 && status.Status().Code < 500
}

// resync has all quotas checked for changes caused by time alone: by their own keys, since released usage would be subtracted
// twice if a quota were reconciled by two workers at once.
func (c *Controller) resync() controllers.Result {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, key := range c.ledger.age(time.Now()) {
		c.queue.Add(key)
	}
	return controllers.Result{RequeueAfter: c.options.Resync}
}
