package reconciler

import (
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/keelson-dev/keelson/controllers"
	"github.com/keelson-dev/keelson/lifecycle"
)

// New returns the Reconcile of a controller as a reconcile.Reconciler. The keys come from Source.
func New(c controllers.Controller) reconcile.Reconciler {
	return reconcile.Func(func(ctx context.Context, r reconcile.Request) (reconcile.Result, error) {
		result, err := c.Reconcile(ctx, controllers.Key{Namespace: r.Namespace, Name: r.Name})
		if err != nil {
			return reconcile.Result{}, err
		}
		return reconcile.Result{RequeueAfter: result.RequeueAfter}, nil
	})
}

// Source returns the Watch of a controller as a source: once started, it enqueues the keys of the controller. It is in
// sync when the controller's caches are.
func Source(c controllers.Controller) source.SyncingSource {
	return &watch{controller: c}
}

type watch struct {
	controller controllers.Controller

	mu      sync.Mutex
	started bool
	synced  []controllers.Synced
}

// Start implements source.Source.
func (w *watch) Start(_ context.Context, q workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.started {
		return fmt.Errorf("source of %s: %w", w.controller.Name(), controllers.ErrStarted)
	}
	w.started = true
	w.synced = w.controller.Watch(queue{q})
	return nil
}

// WaitForSync implements source.SyncingSource.
func (w *watch) WaitForSync(ctx context.Context) error {
	w.mu.Lock()
	synced := w.synced
	w.mu.Unlock()
	for _, cache := range synced {
		if err := cache.WaitSynced(ctx); err != nil {
			return fmt.Errorf("source of %s: %w", w.controller.Name(), err)
		}
	}
	return nil
}

// String names the source in logs.
func (w *watch) String() string { return "watch of " + w.controller.Name() }

// queue adds keys to a queue of requests.
type queue struct {
	requests workqueue.TypedRateLimitingInterface[reconcile.Request]
}

func request(k controllers.Key) reconcile.Request {
	return reconcile.Request{NamespacedName: types.NamespacedName{Namespace: k.Namespace, Name: k.Name}}
}

func (q queue) Add(k controllers.Key) { q.requests.Add(request(k)) }
func (q queue) AddAfter(k controllers.Key, after time.Duration) {
	q.requests.AddAfter(request(k), after)
}

// Unmanaged returns a controller of controller-runtime without a manager; the caller starts it.
// The options' Reconciler is ignored.
func Unmanaged(c controllers.Controller, o controller.Options) (controller.Controller, error) {
	o.Reconciler = New(c)
	made, err := controller.NewUnmanaged(c.Name(), o)
	if err != nil {
		return nil, err
	}
	return made, made.Watch(Source(c))
}

// Add adds a controller to a manager, which starts it. The options' Reconciler is ignored.
func Add(m manager.Manager, c controllers.Controller, o controller.Options) error {
	o.DefaultFromConfig(m.GetControllerOptions())
	made, err := Unmanaged(c, o)
	if err != nil {
		return err
	}
	return m.Add(made)
}

// Runnable lets a manager run a lifecycle.Runnable, such as the informers of a controller.
func Runnable(r lifecycle.Runnable) manager.Runnable { return manager.RunnableFunc(r.Run) }
