package horizontalpodautoscaler

import (
	"cmp"
	"context"
	"log/slog"
	"sync"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/controllers"
	"github.com/keelson-dev/keelson/events"
	"github.com/keelson-dev/keelson/informer"
)

// Sources are what the controller reads.
type Sources struct {
	Autoscalers *informer.Informer[*autoscalingv2.HorizontalPodAutoscaler]
	Pods        *informer.Informer[*corev1.Pod]
}

// Client is what the controller needs of the server: to read and update scales, and to update the status of autoscalers.
type Client interface {
	client.Getter
	client.Updater
}

// Options of a Controller. Without Served, nothing can be scaled; the other zero values behave as upstream.
type Options struct {
	// Served returns the resources of a kind, the best first.
	Served func(ctx context.Context, kind schema.GroupKind) []schema.GroupVersionResource
	// Period is the time between two evaluations of an autoscaler; 0 is 15 s.
	Period time.Duration
	// Stabilization is for how long the highest recommendation keeps an autoscaler from scaling down that does not say for
	// how long itself; 0 is 5 min.
	Stabilization time.Duration
	// Tolerance is how far the ratio of a metric to its target may be from 1 without scaling; 0 is 0.1.
	Tolerance float64
	// CPUInitialization is for how long after its start the CPU usage of a pod only counts while it is ready; 0 is 5 min.
	CPUInitialization time.Duration
	// InitialReadiness is for how long after its start changes of a pod's readiness mean that it was not ready yet; 0 is 30 s.
	InitialReadiness time.Duration
	// Logger logs failed evaluations; nil discards.
	Logger *slog.Logger
}

// Controller is the horizontal-pod-autoscaler-controller. Make one with New.
type Controller struct {
	in        Sources
	client    Client
	metrics   Metrics
	recorder  events.Recorder
	options   Options
	selectors selectors

	mu        sync.Mutex
	histories map[controllers.Key]*history
	written   map[controllers.Key]string // resource versions of the last writes of a status
}

var _ controllers.Controller = (*Controller)(nil)

// New makes the controller.
func New(in Sources, c Client, m Metrics, r events.Recorder, o Options) *Controller {
	if o.Served == nil {
		o.Served = func(context.Context, schema.GroupKind) []schema.GroupVersionResource { return nil }
	}
	o.Period = cmp.Or(o.Period, 15*time.Second)
	o.Stabilization = cmp.Or(o.Stabilization, 5*time.Minute)
	o.Tolerance = cmp.Or(o.Tolerance, 0.1)
	o.CPUInitialization = cmp.Or(o.CPUInitialization, 5*time.Minute)
	o.InitialReadiness = cmp.Or(o.InitialReadiness, 30*time.Second)
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return &Controller{
		in: in, client: c, metrics: m, recorder: r, options: o,
		histories: map[controllers.Key]*history{}, written: map[controllers.Key]string{},
	}
}

// Name is "horizontal-pod-autoscaler-controller".
func (*Controller) Name() string { return "horizontal-pod-autoscaler-controller" }

// Watch enqueues new autoscalers and those whose spec changes at once. A change of the status, which is mostly the
// controller's own, must not cause an evaluation before its time.
func (c *Controller) Watch(q controllers.Queue) []controllers.Synced {
	c.in.Autoscalers.AddHandler(informer.Handler[*autoscalingv2.HorizontalPodAutoscaler]{
		Added: func(a *autoscalingv2.HorizontalPodAutoscaler) {
			c.selectors.add(controllers.KeyOf(a))
			q.Add(controllers.KeyOf(a))
		},
		Updated: func(old, a *autoscalingv2.HorizontalPodAutoscaler) {
			if old.Generation != a.Generation {
				c.selectors.add(controllers.KeyOf(a))
				q.Add(controllers.KeyOf(a))
			} else {
				q.AddAfter(controllers.KeyOf(a), c.options.Period)
			}
		},
		Deleted: func(a *autoscalingv2.HorizontalPodAutoscaler) {
			c.selectors.remove(controllers.KeyOf(a))
			q.Add(controllers.KeyOf(a)) // to be forgotten
		},
	})
	return []controllers.Synced{c.in.Autoscalers, c.in.Pods}
}

// Reconcile evaluates an autoscaler. It is evaluated again a period later, whatever the outcome.
func (c *Controller) Reconcile(ctx context.Context, key controllers.Key) (controllers.Result, error) {
	again := controllers.Result{RequeueAfter: c.options.Period}
	if c.lags(key) {
		return again, nil
	}
	a, ok := c.in.Autoscalers.Get(key.Namespace, key.Name)
	if !ok {
		c.forget(key)
		return controllers.Result{}, nil
	}
	e := &evaluation{Controller: c, key: key, autoscaler: a.DeepCopy(), before: &a.Status, history: c.historyOf(key)}
	if err := e.run(ctx); err != nil && ctx.Err() == nil {
		c.options.Logger.Warn("scaling failed", "autoscaler", key.String(), "error", err)
	}
	return again, nil
}

// lags reports whether the cache does not have the last write of the autoscaler's status yet: what it says of the past would
// be outdated.
func (c *Controller) lags(key controllers.Key) bool {
	c.mu.Lock()
	written, ok := c.written[key]
	c.mu.Unlock()
	if !ok {
		return false
	}
	order, err := resourceversion.CompareResourceVersion(c.in.Autoscalers.LastVersion(), written)
	return err == nil && order < 0
}

func (c *Controller) wrote(key controllers.Key, version string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.written[key] = version
}

func (c *Controller) historyOf(key controllers.Key) *history {
	c.mu.Lock()
	defer c.mu.Unlock()
	h := c.histories[key]
	if h == nil {
		h = &history{}
		c.histories[key] = h
	}
	return h
}

func (c *Controller) forget(key controllers.Key) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.histories, key)
	delete(c.written, key)
}
