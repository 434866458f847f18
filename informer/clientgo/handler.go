package clientgo

import (
	"fmt"
	"time"

	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/tools/cache"

	"github.com/keelson-dev/keelson/informer"
)

// minimumResync is the shortest period allowed.
const minimumResync = time.Second

// AddEventHandler implements cache.SharedInformer.
func (a *Informer) AddEventHandler(handler cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	return a.AddEventHandlerWithOptions(handler, cache.HandlerOptions{})
}

// AddEventHandlerWithResyncPeriod implements cache.SharedInformer.
func (a *Informer) AddEventHandlerWithResyncPeriod(handler cache.ResourceEventHandler, period time.Duration) (cache.ResourceEventHandlerRegistration, error) {
	return a.AddEventHandlerWithOptions(handler, cache.HandlerOptions{ResyncPeriod: &period})
}

// AddEventHandlerWithOptions implements cache.SharedInformer. It ignores the logger of the options.
func (a *Informer) AddEventHandlerWithOptions(handler cache.ResourceEventHandler, options cache.HandlerOptions) (cache.ResourceEventHandlerRegistration, error) {
	if a.IsStopped() {
		return nil, fmt.Errorf("handler %v was not added to shared informer because it has stopped already", handler)
	}
	period := a.resync
	if options.ResyncPeriod != nil {
		period = *options.ResyncPeriod
	}
	h := &caller{handler: handler}
	made := a.inner.AddHandler(informer.Handler[informer.Object]{
		Changed: h.call, Resync: a.period(period), Queue: a.queue,
	})
	return &registration{Registration: made, informer: a, name: fmt.Sprintf("SharedIndexInformer %s + event handler %T", a.kind, handler)}, nil
}

// period returns the period in effect for one that a handler asks for.
func (a *Informer) period(asked time.Duration) time.Duration {
	if asked <= 0 {
		return 0
	}
	asked = max(asked, minimumResync)
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case !a.started && asked < a.check:
		a.check = asked
	case a.check == 0:
		a.log.Warn("no resyncs: the informer was made without them", "kind", a.kind, "asked", asked)
		return 0
	case asked < a.check:
		a.log.Warn("resync period raised to the shortest one of the informer", "kind", a.kind, "asked", asked, "period", a.check)
		return a.check
	}
	return asked
}

// registration is a cache.ResourceEventHandlerRegistration.
type registration struct {
	*informer.Registration
	informer *Informer
	name     string
}

// HasSynced implements cache.ResourceEventHandlerRegistration.
func (r *registration) HasSynced() bool { return cache.IsDone(r.HasSyncedChecker()) }

// HasSyncedChecker implements cache.ResourceEventHandlerRegistration.
func (r *registration) HasSyncedChecker() cache.DoneChecker {
	return checker{name: r.name, done: r.Synced()}
}

// ShutdownChan is for cache.ShutDownEventHandler.
func (r *registration) ShutdownChan() <-chan struct{} { return r.Done() }

// RemoveEventHandler implements cache.SharedInformer.
func (a *Informer) RemoveEventHandler(handle cache.ResourceEventHandlerRegistration) error {
	r, ok := handle.(*registration)
	if !ok {
		return fmt.Errorf("invalid key type %T", handle)
	}
	if r.informer == a {
		r.Remove()
	}
	return nil
}

// caller calls a handler from the handler's own goroutine.
type caller struct {
	handler cache.ResourceEventHandler
	crashed bool
}

// call passes one change to the handler. A panic ends the process, unless k8s.io/apimachinery/pkg/util/runtime is
// configured otherwise; then call waits a second.
func (h *caller) call(c informer.Change[informer.Object]) {
	if h.crashed {
		time.Sleep(time.Second)
	}
	h.crashed = true
	defer utilruntime.HandleCrash()
	switch {
	case c.Type == informer.Added:
		h.handler.OnAdd(c.Object, c.Initial)
	case c.Type == informer.Modified:
		h.handler.OnUpdate(c.Old, c.Object)
	case c.Missed:
		h.handler.OnDelete(cache.DeletedFinalStateUnknown{Key: cache.MetaObjectToName(c.Object).String(), Obj: c.Object})
	default:
		h.handler.OnDelete(c.Object)
	}
	h.crashed = false
}
