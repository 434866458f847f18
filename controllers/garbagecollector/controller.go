package garbagecollector

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/controllers"
	"github.com/keelson-dev/keelson/controllers/internal/gate"
	"github.com/keelson-dev/keelson/events"
	"github.com/keelson-dev/keelson/informer"
)

// Kind is a kind of objects that may own others or be owned.
type Kind struct {
	GroupVersionKind schema.GroupVersionKind
	Resource         string // "pods"
	Namespaced       bool   // whether its objects have a namespace
	// Objects is the informer of the kind. Objects of a kind without one are never collected but may be owners:
	// upstream leaves out events.
	Objects *informer.Informer[informer.Object]
}

// Client is what the controller needs of the server, as the service account generic-garbage-collector.
type Client interface {
	client.Getter
	client.Patcher
	client.Deleter
}

// Controller is the garbage-collector-controller. Make one with New. Its keys are UIDs.
type Controller struct {
	client   Client
	recorder events.Recorder
	graph    *graph
	queue    controllers.Queue

	gate gate.Gate // so that nothing is decided while kinds change

	mu      sync.RWMutex // guards the rest, and queue
	kinds   []Kind
	served  map[schema.GroupKind]Kind
	watched map[*informer.Informer[informer.Object]]*informer.Registration
}

var _ controllers.Controller = (*Controller)(nil)

// New makes a controller for objects of the given kinds. These must be all kinds there are, until Follow is called:
// references to other kinds are not resolved.
func New(kinds []Kind, c Client, r events.Recorder) *Controller {
	return &Controller{
		kinds: kinds, served: byKind(kinds), client: c, recorder: r, graph: newGraph(), watched: map[*informer.Informer[informer.Object]]*informer.Registration{},
	}
}

func byKind(kinds []Kind) map[schema.GroupKind]Kind {
	served := make(map[schema.GroupKind]Kind, len(kinds))
	for _, k := range kinds {
		served[k.GroupVersionKind.GroupKind()] = k
	}
	return served
}

// Follow replaces the kinds. It may be called at any time, and returns once the objects of new kinds are known; until
// then nothing is collected. Objects of kinds that there no longer are neither are collected nor count as gone, but for
// those whose deletion was observed. The error is that of the context.
func (c *Controller) Follow(ctx context.Context, kinds []Kind) error {
	if err := c.gate.Close(ctx); err != nil {
		return err
	}
	defer c.gate.Open()
	added, arrived := c.replace(kinds)
	for _, kind := range added {
		if err := kind.Objects.WaitSynced(ctx); err != nil && !errors.Is(err, informer.ErrStopped) {
			return err
		}
	}
	if len(arrived) > 0 {
		c.follow(changes{look: c.graph.about(arrived)})
	}
	return nil
}

// replace replaces the kinds, and returns those with a new informer and those whose objects have to be looked at.
func (c *Controller) replace(kinds []Kind) (added []Kind, arrived map[schema.GroupKind]bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	before := c.served
	c.kinds, c.served = kinds, byKind(kinds)
	if c.queue == nil {
		return nil, nil // Watch will attach the handlers
	}
	c.detach()
	added, arrived = c.attach(), map[schema.GroupKind]bool{}
	for gk := range c.served {
		if _, ok := before[gk]; !ok {
			arrived[gk] = true
		}
	}
	for _, kind := range added {
		arrived[kind.GroupVersionKind.GroupKind()] = true
	}
	return added, arrived
}

// attach attaches handlers to the informers that have none yet, and returns their kinds.
func (c *Controller) attach() []Kind {
	var added []Kind
	for _, kind := range c.kinds {
		if kind.Objects == nil || c.watched[kind.Objects] != nil {
			continue
		}
		observe := func(obj informer.Object) { c.follow(c.graph.observe(kind.identity(obj), obj)) }
		c.watched[kind.Objects] = kind.Objects.AddHandler(informer.Handler[informer.Object]{
			Added:   observe,
			Updated: func(_, obj informer.Object) { observe(obj) },
			Deleted: func(obj informer.Object) { c.follow(c.graph.forget(kind.identity(obj))) },
		})
		added = append(added, kind)
	}
	return added
}

// detach removes the handlers from informers that are of no kind any more. None of them is called after that.
func (c *Controller) detach() {
	for objects, handler := range c.watched {
		if !slices.ContainsFunc(c.kinds, func(k Kind) bool { return k.Objects == objects }) {
			handler.Remove()
			<-handler.Done()
			delete(c.watched, objects)
		}
	}
}

// Name is "garbage-collector-controller".
func (*Controller) Name() string { return "garbage-collector-controller" }

// Watch updates the graph, and enqueues objects that a change may have left without an owner.
func (c *Controller) Watch(q controllers.Queue) []controllers.Synced {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.queue = q
	var synced []controllers.Synced
	for _, kind := range c.attach() {
		synced = append(synced, kind.Objects)
	}
	return synced
}

// Reconcile processes one object: it decides whether to delete it, to orphan its dependents, or to remove a finalizer
// because nothing blocks its deletion any more.
func (c *Controller) Reconcile(ctx context.Context, key controllers.Key) (controllers.Result, error) {
	if err := c.gate.Enter(ctx); err != nil {
		return controllers.Result{}, err
	}
	defer c.gate.Leave()
	s, ok := c.graph.state(types.UID(key.Name))
	if !ok {
		return controllers.Result{}, nil
	}
	again, err := c.sync(ctx, s)
	return controllers.Result{RequeueAfter: again}, err
}

// follow enqueues the objects that a change of the graph affects and records the events.
func (c *Controller) follow(ch changes) {
	for _, id := range ch.look {
		c.queue.Add(controllers.Key{Name: string(id)})
	}
	for _, bad := range ch.invalid {
		d := bad.dependent
		c.recorder.Record(events.Event{
			Regarding: corev1.ObjectReference{APIVersion: d.apiVersion, Kind: d.kind, Namespace: d.namespace, Name: d.name, UID: d.uid},
			Type:      corev1.EventTypeWarning, Reason: "OwnerRefInvalidNamespace",
			Message: fmt.Sprintf("ownerRef %s does not exist in namespace %q", bad.owner, d.namespace),
		})
	}
}

func (k Kind) identity(obj informer.Object) identity {
	return identity{
		apiVersion: k.GroupVersionKind.GroupVersion().String(), kind: k.GroupVersionKind.Kind,
		namespace: obj.GetNamespace(), name: obj.GetName(), uid: obj.GetUID(),
	}
}

// target returns where the server keeps the object; it fails with errForever if there can be no such place. Any version
// of the kind will do.
func (c *Controller) target(id identity) (client.Target, error) {
	gvk := schema.FromAPIVersionAndKind(id.apiVersion, id.kind)
	c.mu.RLock()
	kind, ok := c.served[gvk.GroupKind()]
	c.mu.RUnlock()
	if !ok {
		return client.Target{}, fmt.Errorf("%w: %s is not served", errForever, gvk)
	}
	at := client.Target{Resource: kind.GroupVersionKind.GroupVersion().WithResource(kind.Resource), Name: id.name}
	if !kind.Namespaced {
		return at, nil
	}
	if id.namespace == "" {
		return client.Target{}, fmt.Errorf("%w: cluster-scoped objects cannot refer to namespaced owners", errForever)
	}
	at.Namespace = id.namespace
	return at, nil
}
